// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiserver assembles the API server:
//
//	flags -> Options -> Config -> Server -> Run
//
// It combines k8s.io/apiserver, the storage, the endpoints of pkg/registry and the webhook of
// pkg/admission. It does not depend on the content of Rollouts.
package apiserver

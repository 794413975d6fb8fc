// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package apiserver answers one question: how is the server put together?
//
//	flags -> Options -> Config -> Server -> Run
//
// It joins k8s.io/apiserver, the storage, the endpoints of pkg/registry and the
// webhook of pkg/admission. It must not know what a Rollout is.
package apiserver

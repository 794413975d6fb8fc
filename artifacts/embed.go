// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package artifacts answers: which objects install Weir?
//
// It only carries the manifests, so that programs of this repository apply the
// same files as a user does. It must not know how they are applied.
package artifacts

import "embed"

// Base has base/*.yaml: namespace, service accounts, RBAC, API services and the
// webhook configuration.
//
//go:embed base
var Base embed.FS

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package tree serves the tree of a Rollout, which is not stored. It answers what the
// caller may see: it asks the authorizer as the caller, reads with the account of the server
// what is allowed, and keeps nothing when nobody looks.
package tree

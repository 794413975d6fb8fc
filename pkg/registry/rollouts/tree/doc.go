// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package tree serves the tree of a Rollout and the objects that belong to it. The tree is not stored. The
// package reads with the service account of the server, and shows each user only what the authorizer
// permits. It keeps a cache only while somebody watches a tree.
package tree

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster reads from and writes to the API server for the controllers. It reads the served API
// versions and converts them to hub types. It stores a status at the resourceVersion that the status was
// planned from, and it turns changes into writes that fail with a conflict if somebody else has written the
// object. The package does not know why anything is written.
package cluster

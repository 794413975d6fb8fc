// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package cluster is the only place of the controllers that talks to a server.
// It answers what is stored and writes what was decided: it reads the wire
// version and speaks hub types to everyone else, commits status at the version
// it was planned from, and turns changes into writes that fail when somebody
// moved. It must not know why anything is written.
package cluster

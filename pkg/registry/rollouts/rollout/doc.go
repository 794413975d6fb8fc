// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout serves Rollouts. It decides which request may change which part of a stored Rollout:
// strategy.go for users of the spec, status.go for writers of the status, command.go for verbs. storage.go
// connects them with the store. The package verb decides whether a verb is possible and what it changes;
// this package does not depend on the states of a release.
package rollout

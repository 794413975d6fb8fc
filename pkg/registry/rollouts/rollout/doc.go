// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout answers one question: what may which request change of a
// stored Rollout? strategy.go says it for users of the spec, status.go for
// writers of the status, command.go for the verbs; storage.go joins them with
// the store. What a verb does, and whether it is possible, is the planner's to
// say; this package must not know the states of a release.
package rollout

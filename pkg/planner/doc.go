// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package planner decides what happens next to a release. Decide decides about a Rollout, its BatchRelease
// and the ReplicaSets of its workload; DecideBatch about a BatchRelease without a Rollout; Admit about an
// update of a workload in admission. Verbs in the API server call the same functions.
//
// Everything here is a pure function of its arguments: no client, context, logger, clock, randomness or
// global state. Equal inputs give equal decisions, so a decision can be printed, compared, fuzzed and
// replayed.
//
//	observe -> Input -> Decide -> Decision -> store the status -> announce events -> carry out actions
//
// Decide finds the first case that applies (decide.go). A case may continue with another case in the same
// write. The case "in progress" takes the release through the stages of a step (step.go): each stage has
// gates that must pass (gate.go) and targets that it changes in the cluster (traffic.go). The end of a
// release and a deletion run through the rows of a teardown (teardown.go). An abort moves traffic and pods
// back to the stable revision (abort.go, moveBackToStable). Afterwards, projections complete the status:
// conditions, record, deadline and others.
//
// A decision has an action as long as the cluster differs from what the decision wants, and a stage ends
// when the observed cluster agrees. So a pass that only waits has no actions and writes nothing, and
// repeating a pass is harmless.
package planner

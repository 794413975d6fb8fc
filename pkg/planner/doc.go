// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package planner answers one question: given what was observed of a Rollout, what
// happens next? Decide answers it for Rollouts, TrafficRouting for TrafficRoutings, and
// Admit for updates of workloads. It also has the terms that packages batch and verb share.
//
// Everything here is a pure function of its arguments: no client, context,
// logger, clock, randomness or global state. Two equal observations give two
// equal decisions, so a decision can be printed, compared, fuzzed and replayed.
//
//	observe -> Observed -> Decide -> Decision -> commit -> announce -> apply
//
// A function of facts only answers. A function of a draft only changes it, and returns
// nothing. Decide finds the first case that applies (decide.go), which may go on with
// another one in the same write. A step moves through stages (step.go), each with a goal
// of targets and gates (gate.go). An ending works through the rows of a teardown
// (teardown.go). Projections add what follows from the rest.
//
// A decision names the whole next status and the targets to reach. Targets are
// emitted while what is written differs from what is wanted; a stage is left
// when what is observed agrees. So waiting passes have no actions and write
// nothing, and repeating a pass is harmless.
package planner

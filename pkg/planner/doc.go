// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package planner answers one question: given what was observed, what happens
// next? It holds the three machines of a release - the Rollout, its batches and
// the scaling of ReplicaSets - and the rules of the verbs and of admission.
//
// Everything here is a pure function of its arguments: no client, context,
// logger, clock, randomness or global state. Two equal observations give two
// equal plans, so a plan can be printed, compared, fuzzed and replayed.
//
//	observe -> Observed -> Rollout() -> Plan -> commit -> announce -> apply
//
// A plan names the whole next status and the targets to reach. Targets are
// emitted while what is written differs from what is wanted; a stage is left
// when what is observed agrees. So waiting passes have no actions and write
// nothing, and repeating a pass is harmless.
package planner

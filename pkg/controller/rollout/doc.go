// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout runs the passes over Rollouts. It answers what is observed of
// a Rollout's world and carries out what planner.Rollout decided about it; it
// must not decide anything itself.
package rollout

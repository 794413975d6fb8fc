// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout reconciles Rollouts. A pass observes the Rollout and the objects of its release, lets
// planner.Decide decide, and carries out the decision. The package does not decide anything itself.
package rollout

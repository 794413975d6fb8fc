// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The enumerations are spelled as in v1beta1, which documents their values.
type (
	// Phase is the life phase of a Rollout or a BatchRelease.
	Phase string
	// StepState is the stage within a step.
	StepState string
	// FinalisingStep is the position in a teardown.
	FinalisingStep string
	// BatchState is the state of a BatchRelease's current batch.
	BatchState string
	// FinalizingPolicy says how a BatchRelease gives its workload back.
	FinalizingPolicy string
	// Style is how pods are replaced.
	Style string
	// ConditionType is a type of condition.
	ConditionType string
	// Verb is a release action of the API.
	Verb string
	// Via is the way a decision came in.
	Via string
	// Outcome is what became of a decision.
	Outcome string
	// ReleaseOutcome is how a release ended.
	ReleaseOutcome string
)

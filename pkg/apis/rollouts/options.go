// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PromoteOptions is the body of the verb promote.
type PromoteOptions struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	DecisionOptions
	// Full lets every further batch run without waiting for approval.
	Full bool
	// Override lets the step pass, or with Full every further one, whatever its checks say.
	Override bool
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AbortOptions is the body of the verb abort.
type AbortOptions struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	DecisionOptions
}

// Verbs without a field of their own have the body of abort.

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RollbackOptions is the body of the verb rollback.
type RollbackOptions AbortOptions

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RetryOptions is the body of the verb retry.
type RetryOptions struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	DecisionOptions
	// Override makes failed checks report only, in this attempt.
	Override bool
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PauseOptions is the body of the verb pause.
type PauseOptions AbortOptions

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResumeOptions is the body of the verb resume.
type ResumeOptions AbortOptions

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// JumpOptions is the body of the verb jump.
type JumpOptions struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	DecisionOptions
	// Step is where the release continues, 1-based.
	Step int32
	// Override lets the jump pass checks that are open or have failed.
	Override bool
}

// DecisionOptions is what every verb takes.
type DecisionOptions struct {
	// Reason is kept with the decision.
	Reason string
	// RequestID makes the request safe to repeat.
	RequestID string
	// Expect is a precondition: the server rejects the request if one of its fields differs.
	Expect *Expectation
}

// Common returns the options that every verb has.
func (o *DecisionOptions) Common() *DecisionOptions { return o }

// Expectation is the state that the caller has read; any difference rejects the request.
type Expectation struct {
	// Step is the current step, 1-based.
	Step *int32
	// Revision is the revision being released.
	Revision string
	// UpdateTemplate is the digest of the template being released.
	UpdateTemplate string
	// Plan is the rollout hash, since editing the plan renumbers steps.
	Plan            string
	ResourceVersion string
	UID             types.UID
}

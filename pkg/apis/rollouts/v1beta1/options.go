// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PromoteOptions is the body of the verb promote. An empty body is fine.
type PromoteOptions struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata may name the Rollout; it is not needed.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	DecisionOptions `json:",inline"`
	// Full lets every further batch of this revision run in order without
	// waiting for approvals and timed pauses. Default: false.
	// +optional
	Full bool `json:"full,omitempty"`
	// Override lets the step pass, or with full every further one, whatever its
	// checks say. It takes a reason, and permission to create rollouts/override.
	// Default: false.
	// +optional
	Override bool `json:"override,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AbortOptions is the body of the verb abort. An empty body is fine.
type AbortOptions struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata may name the Rollout; it is not needed.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	DecisionOptions `json:",inline"`
}

// Verbs without a field of their own have the body of abort.

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RollbackOptions is the body of the verb rollback. An empty body is fine.
type RollbackOptions AbortOptions

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RetryOptions is the body of the verb retry. An empty body is fine.
type RetryOptions struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata may name the Rollout; it is not needed.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	DecisionOptions `json:",inline"`
	// Override makes failed checks report only, in this attempt. It takes a reason, and
	// permission to create rollouts/override. Default: false.
	// +optional
	Override bool `json:"override,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PauseOptions is the body of the verb pause. An empty body is fine.
type PauseOptions AbortOptions

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ResumeOptions is the body of the verb resume. An empty body is fine.
type ResumeOptions AbortOptions

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// JumpOptions is the body of the verb jump.
type JumpOptions struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata may name the Rollout; it is not needed.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	DecisionOptions `json:",inline"`
	// Step is where the release continues, counted from 1. The current step runs
	// again.
	Step int32 `json:"step"`
	// Override lets the jump pass checks that are open or have failed. It takes a
	// reason, and permission to create rollouts/override. Default: false.
	// +optional
	Override bool `json:"override,omitempty"`
}

// DecisionOptions is what every verb takes.
type DecisionOptions struct {
	// Reason is kept with the decision. At most 1024 characters.
	// +optional
	Reason string `json:"reason,omitempty"`
	// RequestID makes the request safe to repeat: the same user, verb and ID
	// again change nothing. At most 63 characters.
	// +optional
	RequestID string `json:"requestID,omitempty"`
	// Expect is a precondition: the server rejects the request if one of these fields differs.
	// +optional
	Expect *Expectation `json:"expect,omitempty"`
}

// Expectation is what the caller believes. Whatever is given must hold, or the
// request is answered with a conflict that names the actual values.
type Expectation struct {
	// Step is the current step, counted from 1.
	// +optional
	Step *int32 `json:"step,omitempty"`
	// Revision is the revision being released. It is a short hash, which another
	// template may have too: updateTemplate tells both apart.
	// +optional
	Revision string `json:"revision,omitempty"`
	// UpdateTemplate is the SHA-256 digest of the template being released, as the
	// Rollout's status has it.
	// +optional
	UpdateTemplate string `json:"updateTemplate,omitempty"`
	// Plan is the rollout hash, since editing a plan renumbers its steps.
	// +optional
	Plan string `json:"plan,omitempty"`
	// ResourceVersion of the Rollout.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// UID of the Rollout.
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

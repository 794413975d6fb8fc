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
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// AbortOptions is the body of the verb abort.
type AbortOptions struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	DecisionOptions
}

// DecisionOptions is what every verb takes.
type DecisionOptions struct {
	// Reason is kept with the decision.
	Reason string
	// RequestID makes the request safe to repeat.
	RequestID string
	// Expect refuses the request when the Rollout has moved on.
	Expect *Expectation
}

// Expectation is what the caller believes; any difference refuses the request.
type Expectation struct {
	// Step is the current step, 1-based.
	Step *int32
	// Revision is the revision being released.
	Revision string
	// Plan is the rollout hash, since editing the plan renumbers steps.
	Plan            string
	ResourceVersion string
	UID             types.UID
}

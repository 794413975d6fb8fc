// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Check is a check that the Rollouts of its namespace can use.
type Check struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what is measured.
	Spec CheckSpec `json:"spec"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// CheckList is a list of Checks.
type CheckList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the Checks.
	Items []Check `json:"items"`
}

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterCheck is a check that all Rollouts can use. Administrators write it. It may
// have PromQL whatever its source says.
type ClusterCheck struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what is measured.
	Spec CheckSpec `json:"spec"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterCheckList is a list of ClusterChecks.
type ClusterCheckList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the ClusterChecks.
	Items []ClusterCheck `json:"items"`
}

// CheckSpec says what is measured: exactly one of successRate, latency, asGoodAs, query,
// http and job. In which steps, and what a failure does, the Rollout says. In its texts
// $NAME stands for the argument of that name.
type CheckSpec struct {
	// Args are the arguments. At most 16.
	// +optional
	// +listType=map
	// +listMapKey=name
	Args []CheckArg `json:"args,omitzero"`
	// Gate makes a check wait until it passes; it never fails. Only for http and query. Default: false.
	// +optional
	Gate *bool `json:"gate,omitempty"`
	// FailAfter is after how many bad measurements in a row a query by promql or an http check
	// fails, and after how many good ones it passes. Default: 3, and 1 of a gate.
	// +optional
	FailAfter *int32 `json:"failAfter,omitempty"`
	// SuccessRate is the least share of requests that must succeed, such as "99%".
	// +optional
	SuccessRate *string `json:"successRate,omitempty"`
	// Latency asks that a share of the requests is answered in time.
	// +optional
	Latency *v1beta1.LatencyCheck `json:"latency,omitempty"`
	// AsGoodAs is Stable: the new version fails no more requests, and is no slower, than the
	// stable one in the same seconds.
	// +optional
	AsGoodAs v1beta1.AsGoodAs `json:"asGoodAs,omitempty"`
	// Tolerance of asGoodAs, successRate, latency and query towards stable.
	// +optional
	Tolerance *v1beta1.Tolerance `json:"tolerance,omitempty"`
	// Query asks a metric source.
	// +optional
	Query *v1beta1.QueryCheck `json:"query,omitempty"`
	// HTTP asks a Service of the namespace of the Rollout.
	// +optional
	HTTP *v1beta1.HTTPCheck `json:"http,omitempty"`
	// Job runs a suspended CronJob of the namespace of the Rollout once per step.
	// +optional
	Job *v1beta1.JobCheck `json:"job,omitempty"`
}

// CheckArg is an argument of a check.
type CheckArg struct {
	// Name of the argument: letters, digits and _. $NAME stands for it. Of a release are
	// $namespace, $workload, $service, $pods and $window.
	Name string `json:"name"`
	// Default is the value if the Rollout gives none. Without it the Rollout must give one.
	// +optional
	Default *string `json:"default,omitempty"`
}

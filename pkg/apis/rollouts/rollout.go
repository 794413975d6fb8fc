// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Rollout releases new revisions of one workload step by step.
type Rollout struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   RolloutSpec
	Status RolloutStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RolloutList is a list of Rollouts.
type RolloutList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []Rollout
}

// RolloutSpec is what the owner of the workload asks for.
type RolloutSpec struct {
	// WorkloadRef names the workload in the Rollout's namespace; validation refuses nil.
	WorkloadRef *ObjectRef
	// Strategy says how revisions are released.
	Strategy Strategy
	// Disabled returns the workload to its native controller, which then releases the
	// current template to all pods. An aborted workload stays paused.
	Disabled bool
	// RolloutID exists in v1alpha1 only and decides nothing.
	RolloutID string
}

// ObjectRef names an object in the Rollout's namespace.
type ObjectRef struct {
	APIVersion string
	Kind       string
	Name       string
}

// Strategy holds the release under the key that the wire uses. Exactly one of Canary and
// BlueGreen must be set. The type allows both, so that validation can refuse them.
type Strategy struct {
	// Paused freezes the release where it is.
	Paused bool
	// PausedGiven reports whether Paused was written, even as false; see Pause.Given.
	PausedGiven bool
	// Canary is the release of the canary and partition styles.
	Canary *Release
	// BlueGreen is the release of the blue-green style.
	BlueGreen *Release
}

// Release is the plan of a release, whatever its style.
type Release struct {
	// Steps in order; 1-based wherever a step is named by number.
	Steps []Step
	// TrafficRoutings names the Service and its routers; at most one entry.
	TrafficRoutings []TrafficRoutingRef
	// TrafficRoutingRef names a TrafficRouting object; an empty name is none.
	TrafficRoutingRef *string
	// FailureThreshold is how many unready update pods a batch tolerates.
	FailureThreshold *intstr.IntOrString
	// ProgressDeadlineSeconds is how long a release may make no progress; nil means the
	// deadline of the workload.
	ProgressDeadlineSeconds *int32
	// PodTemplateMetadata is merged into the pods of the extra workload. Canary only.
	PodTemplateMetadata *PodTemplateMetadata
	// ExtraWorkload asks for an extra Deployment instead of a partition. Canary only.
	ExtraWorkload      bool
	ExtraWorkloadGiven bool
	// DisableCanaryService uses the stable Service for both revisions.
	DisableCanaryService      bool
	DisableCanaryServiceGiven bool
	// Analysis says by which checks the release is judged; nil for the health of its pods alone.
	Analysis *Analysis
}

// Step is one unit of progress.
type Step struct {
	// Traffic is the share sent to the update revision, such as "20%".
	Traffic *string
	// Matches sends only matching requests to the update revision.
	Matches []RouteMatch
	// RequestHeaderModifier rewrites the headers of requests to the update revision.
	RequestHeaderModifier *HeaderModifier
	// Replicas is how many pods run the update revision at the end of the step.
	Replicas *intstr.IntOrString
	// Pause says what ends the step.
	Pause Pause
}

// Pause is what a step waits for once its traffic is in place.
type Pause struct {
	// Duration in seconds; nil waits for approval.
	Duration *int32
	// Given reports whether the pause was written, even as an empty one. Both wait for
	// approval; what the user wrote must read back as written, or GitOps tools see a
	// difference. The wire has a pointer instead.
	// +k8s:conversion-gen=false
	Given bool
}

// PodTemplateMetadata is metadata merged into a pod template.
type PodTemplateMetadata struct {
	Annotations map[string]string
	Labels      map[string]string
}

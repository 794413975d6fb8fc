// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// +genclient
// +genclient:method=Promote,verb=create,subresource=promote,input=PromoteOptions,result=Rollout
// +genclient:method=Abort,verb=create,subresource=abort,input=AbortOptions,result=Rollout
// +genclient:method=Rollback,verb=create,subresource=rollback,input=RollbackOptions,result=Rollout
// +genclient:method=Retry,verb=create,subresource=retry,input=RetryOptions,result=Rollout
// +genclient:method=Pause,verb=create,subresource=pause,input=PauseOptions,result=Rollout
// +genclient:method=Resume,verb=create,subresource=resume,input=ResumeOptions,result=Rollout
// +genclient:method=Jump,verb=create,subresource=jump,input=JumpOptions,result=Rollout
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Rollout releases new revisions of one workload step by step.
type Rollout struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is written by the owner of the workload.
	// +optional
	Spec RolloutSpec `json:"spec,omitzero"`
	// Status is written by the server and its controllers.
	// +optional
	Status RolloutStatus `json:"status,omitzero"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RolloutList is a list of Rollouts.
type RolloutList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the Rollouts.
	Items []Rollout `json:"items"`
}

// RolloutSpec is what the owner of the workload asks for.
type RolloutSpec struct {
	// ObjectRef names the workload. It cannot change while a release is in progress.
	ObjectRef TargetRef `json:"objectRef"`
	// Strategy says how new revisions are released.
	Strategy Strategy `json:"strategy"`
	// Disabled returns the workload to its native controller, which then releases the
	// current template to all pods without further approvals or checks. To keep the
	// stable version, abort or roll back first. An aborted workload stays paused.
	// Default: false.
	// +optional
	Disabled bool `json:"disabled"`
	// RolloutID decides nothing. Deprecated: label the workload with
	// rollouts.kruise.io/rollout-id instead.
	// +optional
	RolloutID string `json:"rolloutID,omitempty"`
}

// TargetRef holds the reference to a workload.
type TargetRef struct {
	// WorkloadRef names the workload in the same namespace. Required.
	// +optional
	WorkloadRef *ObjectRef `json:"workloadRef,omitempty"`
}

// ObjectRef names an object in the Rollout's namespace.
type ObjectRef struct {
	// APIVersion of the object, such as apps/v1.
	APIVersion string `json:"apiVersion"`
	// Kind of the object, such as Deployment.
	Kind string `json:"kind"`
	// Name of the object.
	Name string `json:"name"`
}

// Strategy says how new revisions are released.
type Strategy struct {
	// Paused freezes a release where it is until it is false again. Default: false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
	// Canary is the plan. The annotation rollouts.kruise.io/rolling-style of
	// the Rollout chooses between an extra Deployment (canary, the default)
	// and a partition of the workload's pods (partition). A Rollout whose plan
	// is blue-green has none here. Required.
	// +optional
	Canary *Release `json:"canary,omitempty"`
}

// Release is the plan of a release.
type Release struct {
	// Steps of the release in their order; the status counts them from 1. At
	// least one.
	// +optional
	// +listType=atomic
	Steps []Step `json:"steps,omitzero"`
	// TrafficRoutings names the Service of the workload and what routes to it.
	// At most one entry; without one, traffic is not routed. Cannot change
	// while a release is in progress.
	// +optional
	// +listType=atomic
	TrafficRoutings []TrafficRoutingRef `json:"trafficRoutings,omitzero"`
	// FailureThreshold is how many pods of the update revision, as a number or
	// a percentage, may be unready without holding a step back.
	// +optional
	FailureThreshold *intstr.IntOrString `json:"failureThreshold,omitempty"`
	// ProgressDeadlineSeconds is how long a release may make no progress, while
	// it waits for pods or traffic, until the condition Stalled says so. Time in
	// which it is paused, or waits for somebody, does not count. Default: the
	// workload's own progressDeadlineSeconds, or 600; 2147483647 means never.
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// PatchPodTemplateMetadata is merged into the pods of the extra Deployment
	// and into the selector of the canary Service. Canary style only.
	// +optional
	PatchPodTemplateMetadata *PodTemplateMetadata `json:"patchPodTemplateMetadata,omitempty"`
	// DisableGenerateCanaryService uses the stable Service for both revisions
	// instead of creating one that selects the update revision. Default: false.
	// +optional
	DisableGenerateCanaryService *bool `json:"disableGenerateCanaryService,omitempty"`
}

// Step is one unit of progress.
type Step struct {
	// Weight is the share of requests sent to the update revision, in percent.
	// +optional
	Weight *int32 `json:"weight,omitempty"`
	// RequestHeaderModifier rewrites the headers of requests that go to the
	// update revision. Not every router can.
	// +optional
	RequestHeaderModifier *HeaderModifier `json:"requestHeaderModifier,omitempty"`
	// Matches sends requests that satisfy any of the matches to the update
	// revision, and no others.
	// +optional
	// +listType=atomic
	Matches []RouteMatch `json:"matches,omitzero"`
	// Replicas is how many pods, as a number or a percentage of the workload's
	// replicas, run the update revision at the end of the step. Default: as many
	// percent as the weight; one of the two is required.
	// +optional
	Replicas *intstr.IntOrString `json:"replicas,omitempty"`
	// Pause says what ends the step; without one, an approval does.
	// +optional
	Pause *Pause `json:"pause,omitempty"`
}

// Pause is what a step waits for once its pods and its traffic are in place.
type Pause struct {
	// Duration is how many seconds to wait. Without it the step waits for an approval.
	// +optional
	Duration *int32 `json:"duration,omitempty"`
}

// PodTemplateMetadata is metadata merged into a pod template.
type PodTemplateMetadata struct {
	// Annotations to set.
	// +optional
	Annotations map[string]string `json:"annotations,omitzero"`
	// Labels to set.
	// +optional
	Labels map[string]string `json:"labels,omitzero"`
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

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
// +genclient:method=GetWhy,verb=get,subresource=why,result=RolloutWhy
// +genclient:method=GetTree,verb=get,subresource=tree,result=RolloutTree
// +genclient:method=GetPlan,verb=get,subresource=plan,result=RolloutPlan
// +genclient:method=CreatePlan,verb=create,subresource=plan,input=RolloutPlan,result=RolloutPlan
// +genclient:method=GetHistory,verb=get,subresource=history,result=RolloutReleases
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
	// WorkloadRef names the workload in the Rollout's namespace. It cannot
	// change while a release is in progress.
	WorkloadRef ObjectRef `json:"workloadRef"`
	// Strategy says how new revisions are released.
	Strategy Strategy `json:"strategy"`
	// Disabled returns the workload to its native controller, which then releases the
	// current template to all pods without further approvals or checks. To keep the
	// stable version, abort or roll back first. An aborted workload stays paused.
	// Default: false.
	// +optional
	Disabled bool `json:"disabled"`
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

// Strategy holds exactly one of canary and blueGreen.
type Strategy struct {
	// Paused freezes a release where it is until it is false again. Default: false.
	// +optional
	Paused *bool `json:"paused,omitempty"`
	// Canary releases through a partition of the workload's pods or through an
	// extra Deployment.
	// +optional
	Canary *CanaryStrategy `json:"canary,omitempty"`
	// BlueGreen brings up the update revision beside the whole stable one.
	// +optional
	BlueGreen *BlueGreenStrategy `json:"blueGreen,omitempty"`
}

// CanaryStrategy is the plan of a release in the canary or partition style.
type CanaryStrategy struct {
	Release `json:",inline"`
	// PatchPodTemplateMetadata is merged into the pods of the extra Deployment
	// and into the selector of the canary Service. Canary style only.
	// +optional
	PatchPodTemplateMetadata *PodTemplateMetadata `json:"patchPodTemplateMetadata,omitempty"`
	// EnableExtraWorkloadForCanary runs the update revision in an extra
	// Deployment instead of in a partition of the workload's pods. Only a
	// Deployment can be released so; others are partitioned. Default: false.
	// +optional
	EnableExtraWorkloadForCanary *bool `json:"enableExtraWorkloadForCanary,omitempty"`
}

// BlueGreenStrategy is the plan of a release in the blue-green style.
type BlueGreenStrategy struct {
	Release `json:",inline"`
}

// Release is the part of a plan that all styles share.
type Release struct {
	// Steps of the release in their order; the status counts them from 1. At
	// least one, at most 50. Their number cannot change while a release is
	// in progress.
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
	// a percentage, may be unready without holding a step back. Not used by
	// blue-green.
	// +optional
	FailureThreshold *intstr.IntOrString `json:"failureThreshold,omitempty"`
	// ProgressDeadlineSeconds is how long a release may make no progress, while
	// it waits for pods or traffic, until the condition Stalled says so. Time in
	// which it is paused, or waits for somebody, does not count. Default: the
	// workload's own progressDeadlineSeconds, or 600; 2147483647 means never.
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// TrafficRoutingRef names a TrafficRouting object that routes while a
	// release is in progress.
	// +optional
	TrafficRoutingRef *string `json:"trafficRoutingRef,omitempty"`
	// DisableGenerateCanaryService uses the stable Service for both revisions
	// instead of creating one that selects the update revision. Default: false.
	// +optional
	DisableGenerateCanaryService *bool `json:"disableGenerateCanaryService,omitempty"`
	// Analysis says by which checks the release is judged. A PUT without it keeps the stored
	// one; a patch, an apply, or {} removes it. Default: the health of the new pods alone.
	// +optional
	Analysis *Analysis `json:"analysis,omitempty"`
}

// Step is one unit of progress.
type Step struct {
	// Traffic is the share of requests sent to the update revision, a
	// percentage such as "20%".
	// +optional
	Traffic *string `json:"traffic,omitempty"`
	// RequestHeaderModifier rewrites the headers of requests that go to the
	// update revision. Not every router can.
	// +optional
	RequestHeaderModifier *HeaderModifier `json:"requestHeaderModifier,omitempty"`
	// Matches sends requests that satisfy any of the matches to the update
	// revision, and no others. At most 16.
	// +optional
	// +listType=atomic
	Matches []RouteMatch `json:"matches,omitzero"`
	// Replicas is how many pods, as a number or a percentage of the workload's
	// replicas, run the update revision at the end of the step. Required.
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

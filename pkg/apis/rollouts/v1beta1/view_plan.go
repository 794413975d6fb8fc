// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RolloutPlan is the answer of GET and POST …/plan: what a release will do, computed by
// the code that will do it.
type RolloutPlan struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata: that of the Rollout.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the change that was asked about; empty for the release in progress, or the next.
	// +optional
	Spec PlanSpec `json:"spec,omitzero"`
	// Status is the answer. What is sent is ignored.
	// +optional
	Status PlanStatus `json:"status,omitzero"`
}

// PlanSpec is a change that nobody has made.
type PlanSpec struct {
	// Images by container.
	// +optional
	Images map[string]string `json:"images,omitzero"`
	// Replicas of the workload.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// Workload is a whole manifest instead.
	// +optional
	Workload runtime.RawExtension `json:"workload,omitzero"`
	// Rollout is another plan. The Rollout need not exist then.
	// +optional
	Rollout *RolloutSpec `json:"rollout,omitempty"`
	// After asks what a verb would do now.
	// +optional
	After *AfterVerb `json:"after,omitempty"`
}

// AfterVerb is a verb that nobody has sent.
type AfterVerb struct {
	// Verb is its name.
	Verb string `json:"verb"`
	// Step is that of the verb jump.
	// +optional
	Step int32 `json:"step,omitempty"`
	// Full is that of the verb promote.
	// +optional
	Full bool `json:"full,omitempty"`
	// Override is that of the verbs promote, jump and retry.
	// +optional
	Override bool `json:"override,omitempty"`
}

// PlanStatus is what a release will do.
type PlanStatus struct {
	// Steps in their order.
	// +optional
	// +listType=atomic
	Steps []PlannedStep `json:"steps,omitzero"`
	// Peak is the most there will be at once.
	// +optional
	Peak PeakResources `json:"peak,omitzero"`
	// Floor is the fewest ready pods there will be.
	// +optional
	Floor int32 `json:"floor"`
	// Findings are what will go wrong, or may, errors first.
	// +optional
	// +listType=atomic
	Findings []Finding `json:"findings,omitzero"`
	// Unknown is what was not looked at, and the permission that it takes.
	// +optional
	// +listType=atomic
	Unknown []string `json:"unknown,omitzero"`
}

// PeakResources is what pods ask for.
type PeakResources struct {
	// Pods is how many there are.
	// +optional
	Pods int32 `json:"pods"`
	// CPU that the containers request; missing where they request none.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// Memory that the containers request; missing where they request none.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// PlannedStep is what a step will do.
type PlannedStep struct {
	// Step is counted from 1; 0 for what is not a step of the plan.
	Step int32 `json:"step"`
	// State is Done, Current, Next, Back for an abort, or End for giving the workload back.
	State string `json:"state"`
	// Update is how many pods of the new version there will be.
	// +optional
	Update int32 `json:"update"`
	// Stable is how many pods of the stable version there will be.
	// +optional
	Stable int32 `json:"stable"`
	// Waves are the changes of sizes in their order. Each waits until the pods of the one
	// before are ready.
	// +optional
	// +listType=atomic
	Waves []Wave `json:"waves,omitzero"`
	// Peak is the most pods at once in this step.
	// +optional
	Peak int32 `json:"peak"`
	// MinReady is the fewest ready pods in this step.
	// +optional
	MinReady int32 `json:"minReady"`
	// Traffic is the share of the new version in percent; missing where the step does not set
	// one.
	// +optional
	Traffic *int32 `json:"traffic,omitempty"`
	// Match describes the requests that the new version gets instead of a share, such as
	// "header x-canary: yes"; empty if the step selects no requests.
	// +optional
	Match string `json:"match,omitempty"`
	// PerPod is the load of a new pod, relative to the load of a pod before the release, such as
	// 2.0x.
	// +optional
	PerPod string `json:"perPod,omitempty"`
	// Then is what ends the step.
	// +optional
	Then Then `json:"then,omitzero"`
	// Usual is the median of how long the pods of this step took in earlier releases.
	// +optional
	Usual *metav1.Duration `json:"usual,omitempty"`
}

// Wave is a change of the sizes of both versions, several times in a row if they are alike.
type Wave struct {
	// Start is how many new pods are started.
	// +optional
	Start int32 `json:"start"`
	// Stop is how many pods are stopped.
	// +optional
	Stop int32 `json:"stop"`
	// Times is how often, one after the other.
	Times int32 `json:"times"`
}

// Then is what a step waits for after its pods and its traffic.
type Then struct {
	// For is approval, time, decision or none. The set is open.
	For string `json:"for"`
	// Checks are the names of the checks that the step must pass first.
	// +optional
	// +listType=atomic
	Checks []string `json:"checks,omitzero"`
	// Seconds is how long, where time ends it.
	// +optional
	Seconds *int32 `json:"seconds,omitempty"`
	// You reports whether the caller may approve.
	// +optional
	You bool `json:"you,omitempty"`
	// Approvers are named where a policy names them.
	// +optional
	// +listType=atomic
	Approvers []string `json:"approvers,omitzero"`
}

// Finding is something that will go wrong, or may.
type Finding struct {
	// Severity is Error, Warning or Info.
	Severity string `json:"severity"`
	// Step that it is about; missing where it is about all.
	// +optional
	Step int32 `json:"step,omitempty"`
	// Code is one word: quota, router, traffic, checks, release, validation, claim, load, budget,
	// scaler, probe, template. The set is open.
	Code string `json:"code"`
	// Object to look at.
	// +optional
	Object *ObjectRef `json:"object,omitempty"`
	// Message says what was found.
	Message string `json:"message"`
	// Fix says what would help.
	// +optional
	Fix string `json:"fix,omitempty"`
}

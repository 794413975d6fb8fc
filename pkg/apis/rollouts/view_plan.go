// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RolloutPlan is the answer of GET and POST …/plan: what a release will do, computed by
// the code that will do it.
type RolloutPlan struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	// Spec is the change that was asked about; empty for the release in progress, or the next.
	Spec PlanSpec
	// Status is the answer. What is sent is ignored.
	Status PlanStatus
}

// PlanSpec is a change that nobody has made.
type PlanSpec struct {
	// Images by container.
	Images map[string]string
	// Replicas of the workload.
	Replicas *int32
	// Workload is a whole manifest instead.
	Workload runtime.RawExtension
	// Rollout is another plan. The Rollout need not exist then.
	Rollout *RolloutSpec
	// After asks what a verb would do now.
	After *AfterVerb
}

// AfterVerb is a verb that nobody has sent.
type AfterVerb struct {
	// Verb is its name.
	Verb string
	// Step is that of the verb jump.
	Step int32
	// Full is that of the verb promote.
	Full bool
	// Override is that of the verbs promote, jump and retry.
	Override bool
}

// PlanStatus is what a release will do.
type PlanStatus struct {
	// Steps in their order.
	Steps []PlannedStep
	// Peak is the most there will be at once.
	Peak PeakResources
	// Floor is the fewest ready pods there will be.
	Floor int32
	// Findings are what will go wrong, or may, errors first.
	Findings []Finding
	// Unknown is what was not looked at, and the permission that it takes.
	Unknown []string
}

// PeakResources is what pods ask for.
type PeakResources struct {
	// Pods is how many there are.
	Pods int32
	// CPU that the containers request; missing where they request none.
	CPU *resource.Quantity
	// Memory that the containers request; missing where they request none.
	Memory *resource.Quantity
}

// PlannedStep is what a step will do.
type PlannedStep struct {
	// Step is counted from 1; 0 for what is not a step of the plan.
	Step int32
	// State is Done, Current, Next, Back for an abort, or End for giving the workload back.
	State string
	// Update is how many pods of the new version there will be.
	Update int32
	// Stable is how many pods of the stable version there will be.
	Stable int32
	// Waves are the changes of sizes in their order. Each waits until the pods of the one
	// before are ready.
	Waves []Wave
	// Peak is the most pods at once in this step.
	Peak int32
	// MinReady is the fewest ready pods in this step.
	MinReady int32
	// Traffic is the share of the new version in percent; missing where the step does not set
	// one.
	Traffic *int32
	// Match describes the requests that the new version gets instead of a share, such as
	// "header x-canary: yes"; empty if the step selects no requests.
	Match string
	// PerPod is the load of a new pod, relative to the load of a pod before the release, such as
	// 2.0x.
	PerPod string
	// Then is what ends the step.
	Then Then
	// Usual is the median of how long the pods of this step took in earlier releases.
	Usual *metav1.Duration
}

// Wave is a change of the sizes of both versions, several times in a row if they are alike.
type Wave struct {
	// Start is how many new pods are started.
	Start int32
	// Stop is how many pods are stopped.
	Stop int32
	// Times is how often, one after the other.
	Times int32
}

// Then is what a step waits for after its pods and its traffic.
type Then struct {
	// For is approval, time, decision or none. The set is open.
	For string
	// Checks are the names of the checks that the step must pass first.
	Checks []string
	// Seconds is how long, where time ends it.
	Seconds *int32
	// You reports whether the caller may approve.
	You bool
	// Approvers are named where a policy names them.
	Approvers []string
}

// Finding is something that will go wrong, or may.
type Finding struct {
	// Severity is Error, Warning or Info.
	Severity string
	// Step that it is about; missing where it is about all.
	Step int32
	// Code is one word: quota, router, traffic, checks, release, validation, claim, load, budget,
	// scaler, probe, template. The set is open.
	Code string
	// Object to look at.
	Object *ObjectRef
	// Message says what was found.
	Message string
	// Fix says what would help.
	Fix string
}

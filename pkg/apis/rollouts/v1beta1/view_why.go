// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RolloutWhy is the answer of GET …/why: what a Rollout waits for, and what helps.
type RolloutWhy struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata: that of the Rollout.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// State is AtRest, Moving, Waiting, Stalled, Paused, Aborting, Aborted or Ending.
	State string `json:"state"`
	// Summary is one sentence for a person.
	Summary string `json:"summary"`
	// Release is the one under way; missing at rest.
	// +optional
	Release *ReleaseRef `json:"release,omitempty"`
	// WaitingFor is what has to happen before the release goes on.
	// +optional
	WaitingFor WaitingFor `json:"waitingFor,omitzero"`
	// Causes are what keeps the release where it is, the most important one first.
	// +optional
	// +listType=atomic
	Causes []Cause `json:"causes,omitzero"`
	// Workload says whether Weir has looked at the latest change of the workload.
	// +optional
	Workload WorkloadSeen `json:"workload,omitzero"`
	// Actions are every verb in a fixed order, possible now or not.
	// +optional
	// +listType=atomic
	Actions []Action `json:"actions,omitzero"`
	// Contact is the annotation rollouts.kruise.io/contact of the Rollout.
	// +optional
	Contact string `json:"contact,omitempty"`
}

// ReleaseRef names a release.
type ReleaseRef struct {
	// Number counts the releases of a Rollout, from 1.
	// +optional
	Number int64 `json:"number,omitempty"`
	// Stable is the revision that serves before the release.
	// +optional
	Stable string `json:"stable,omitempty"`
	// Revision is the one that is released.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Images are those that the release changes, as far as they are on record.
	// +optional
	// +listType=atomic
	Images []ImageChange `json:"images,omitzero"`
	// Source says what was built into the release, as far as annotations say it.
	// +optional
	Source *ReleaseSource `json:"source,omitempty"`
}

// ReleaseSource says what was built into a release. The owner of the workload writes it in
// annotations, and Weir does not verify it. The texts are cleaned and at most 256 characters
// long; addresses are http or https, and at most 1024 characters long.
type ReleaseSource struct {
	// Version of the software.
	// +optional
	Version string `json:"version,omitempty"`
	// Commit is the revision in the source code repository.
	// +optional
	Commit string `json:"commit,omitempty"`
	// Author is who made the release.
	// +optional
	Author string `json:"author,omitempty"`
	// Repository is the address of the source code.
	// +optional
	Repository string `json:"repository,omitempty"`
	// Link is an address with more about the release.
	// +optional
	Link string `json:"link,omitempty"`
}

// ImageChange is the image of a container before and after.
type ImageChange struct {
	// Container is its name in the template.
	Container string `json:"container"`
	// From is the image before; missing for a container that is new.
	// +optional
	From string `json:"from,omitempty"`
	// To is the image after; missing for a container that goes.
	// +optional
	To string `json:"to,omitempty"`
}

// WaitingFor is what a release waits for, and for how long.
type WaitingFor struct {
	// For is one word, such as approval, time, checks, pods or traffic; missing where nothing
	// is waited for. The set is open: show What for a word that is not known.
	// +optional
	For string `json:"for,omitempty"`
	// What says it to a person.
	// +optional
	What string `json:"what,omitempty"`
	// Since is when the wait began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Until is when it ends by itself, where that is known.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// Deadline is when the release is Stalled without progress; missing where none runs.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
}

// Cause is one thing that keeps a release where it is.
type Cause struct {
	// About is one word: pods, route, write, admission, deadline, checks and others. The set
	// is open.
	About string `json:"about"`
	// Message says what was seen.
	Message string `json:"message"`
	// Advice says what would help, where that is known.
	// +optional
	Advice string `json:"advice,omitempty"`
	// Objects are what to look at.
	// +optional
	// +listType=atomic
	Objects []ObjectRef `json:"objects,omitzero"`
}

// WorkloadSeen compares the workload with what Weir has seen of it.
type WorkloadSeen struct {
	// Generation of the workload; 0 where it was not read.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// Seen is the generation that the status is about. A lower one than Generation means that
	// Weir has not looked yet.
	// +optional
	Seen int64 `json:"seen,omitempty"`
}

// Action is a verb, and what it takes to use it now.
type Action struct {
	// Verb is its name.
	Verb string `json:"verb"`
	// Title is what a button would say.
	Title string `json:"title"`
	// Possible reports whether the state of the release allows it.
	Possible bool `json:"possible"`
	// Allowed reports whether the caller has the permission.
	Allowed bool `json:"allowed"`
	// Reason is why it is not possible, or what happens.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Path is where to POST the body, below the path of the version of the API.
	Path string `json:"path"`
	// Body is what to POST. What it expects is what the answer was made from, so that it is
	// refused once the Rollout has moved on.
	// +optional
	Body runtime.RawExtension `json:"body,omitzero"`
	// Needs are the fields of the body that a person adds: reason, step, override.
	// +optional
	// +listType=atomic
	Needs []string `json:"needs,omitzero"`
	// OverrideFrom is for jump: a jump to this step, or to a later one, goes past checks that have
	// not passed, and needs the fields override and reason.
	// +optional
	OverrideFrom int32 `json:"overrideFrom,omitempty"`
	// Missing are the subresources, such as rollouts/override, that the caller needs permission to
	// create for this and has no permission to create. With overrideFrom, rollouts/override is
	// missing for these jumps only, and allowed is true all the same.
	// +optional
	// +listType=atomic
	Missing []string `json:"missing,omitzero"`
	// Approvals are counted where more than one person must approve.
	// +optional
	Approvals *Approvals `json:"approvals,omitempty"`
}

// Approvals counts the approvals of a step.
type Approvals struct {
	// Have is how many there are.
	Have int32 `json:"have"`
	// Of is how many are needed.
	Of int32 `json:"of"`
	// By are the names of those that approved.
	// +optional
	// +listType=atomic
	By []string `json:"by,omitzero"`
	// You reports whether an approval of the caller would count.
	// +optional
	You bool `json:"you,omitempty"`
}

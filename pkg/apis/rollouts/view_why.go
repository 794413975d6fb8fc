// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RolloutWhy is the answer of GET …/why: what a Rollout waits for, and what helps.
type RolloutWhy struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	// State is AtRest, Moving, Waiting, Stalled, Paused, Aborting, Aborted or Ending.
	State string
	// Summary is one sentence for a person.
	Summary string
	// Release is the one under way; missing at rest.
	Release *ReleaseRef
	// WaitingFor is what has to happen before the release goes on.
	WaitingFor WaitingFor
	// Causes are what keeps the release where it is, the most important one first.
	Causes []Cause
	// Workload says whether Weir has looked at the latest change of the workload.
	Workload WorkloadSeen
	// Actions are every verb in a fixed order, possible now or not.
	Actions []Action
	// Contact is the annotation rollouts.kruise.io/contact of the Rollout.
	Contact string
}

// ReleaseRef names a release.
type ReleaseRef struct {
	// Number counts the releases of a Rollout, from 1.
	Number int64
	// Stable is the revision that serves before the release.
	Stable string
	// Revision is the one that is released.
	Revision string
	// Images are those that the release changes, as far as they are on record.
	Images []ImageChange
	// Source says what was built into the release, as far as annotations say it.
	Source *ReleaseSource
}

// ImageChange is the image of a container before and after.
type ImageChange struct {
	// Container is its name in the template.
	Container string
	// From is the image before; missing for a container that is new.
	From string
	// To is the image after; missing for a container that goes.
	To string
}

// WaitingFor is what a release waits for, and for how long.
type WaitingFor struct {
	// For is one word, such as approval, time, checks, pods or traffic; missing where nothing
	// is waited for. The set is open: show What for a word that is not known.
	For string
	// What says it to a person.
	What string
	// Since is when the wait began.
	Since *metav1.Time
	// Until is when it ends by itself, where that is known.
	Until *metav1.Time
	// Deadline is when the release is Stalled without progress; missing where none runs.
	Deadline *metav1.Time
}

// Cause is one thing that keeps a release where it is.
type Cause struct {
	// About is one word: pods, route, write, admission, deadline, checks and others. The set
	// is open.
	About string
	// Message says what was seen.
	Message string
	// Advice says what would help, where that is known.
	Advice string
	// Objects are what to look at.
	Objects []ObjectRef
}

// WorkloadSeen compares the workload with what Weir has seen of it.
type WorkloadSeen struct {
	// Generation of the workload; 0 where it was not read.
	Generation int64
	// Seen is the generation that the status is about. A lower one than Generation means that
	// Weir has not looked yet.
	Seen int64
}

// Action is a verb, and what it takes to use it now.
type Action struct {
	// Verb is its name.
	Verb string
	// Title is what a button would say.
	Title string
	// Possible reports whether the state of the release allows it.
	Possible bool
	// Allowed reports whether the caller has the permission.
	Allowed bool
	// Reason is why it is not possible, or what happens.
	Reason string
	// Path is where to POST the body, below the path of the version of the API.
	Path string
	// Body is what to POST. What it expects is what the answer was made from, so that it is
	// refused once the Rollout has moved on.
	Body runtime.RawExtension
	// Needs are the fields of the body that a person adds: reason, step, override.
	Needs []string
	// OverrideFrom is for jump: a jump to this step, or to a later one, needs override; zero if
	// none does.
	OverrideFrom int32
	// Missing are the subresources that the caller may not create, and must create for this.
	Missing []string
	// Approvals are counted where more than one person must approve.
	Approvals *Approvals
}

// Approvals counts the approvals of a step.
type Approvals struct {
	// Have is how many there are.
	Have int32
	// Of is how many are needed.
	Of int32
	// By are the names of those that approved.
	By []string
	// You reports whether an approval of the caller would count.
	You bool
}

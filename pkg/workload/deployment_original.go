// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// original is the value of the annotation that keeps what the owner wrote.
type original struct {
	MaxUnavailable          *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	MaxSurge                *intstr.IntOrString `json:"maxSurge,omitempty"`
	MinReadySeconds         int32               `json:"minReadySeconds"`
	ProgressDeadlineSeconds *int32              `json:"progressDeadlineSeconds,omitempty"`
}

// readOriginal reports whether the strategy in the spec is that of a release, and returns what
// the owner wrote. If nothing holds the workload, or the record is lost, as it may be after a restore of the store, foreverReady
// shows that the values in the spec are Weir's: then the owner's are the defaults.
func readOriginal(d *appsv1.Deployment, hold Hold) (original, bool) {
	var o original
	if err := json.Unmarshal([]byte(d.Annotations[rollouts.AnnotationOriginalStrategy]), &o); err != nil || !hold.Active() {
		return writtenBy(&appsv1.Deployment{}), d.Spec.MinReadySeconds == foreverReady
	}
	o.fit()
	return o, true
}

// writtenBy is what the owner wrote into a spec that is not ours.
func writtenBy(d *appsv1.Deployment) original {
	u := &appsv1.RollingUpdateDeployment{}
	if d.Spec.Strategy.RollingUpdate != nil {
		u = d.Spec.Strategy.RollingUpdate.DeepCopy()
	}
	setDefaults(u)
	o := original{MaxUnavailable: u.MaxUnavailable, MaxSurge: u.MaxSurge, MinReadySeconds: d.Spec.MinReadySeconds}
	deadline := nativeDeadline
	if d.Spec.ProgressDeadlineSeconds != nil {
		deadline = *d.Spec.ProgressDeadlineSeconds
	}
	o.ProgressDeadlineSeconds = &deadline
	return o
}

func (o original) update() *appsv1.RollingUpdateDeployment {
	return &appsv1.RollingUpdateDeployment{MaxUnavailable: o.MaxUnavailable, MaxSurge: o.MaxSurge}
}

// giveTo writes what the owner wrote back.
func (o original) giveTo(d *appsv1.Deployment) {
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: o.update()}
	d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds = o.MinReadySeconds, o.ProgressDeadlineSeconds
	d.SetAnnotations(without(d.Annotations, rollouts.AnnotationOriginalStrategy))
}

// rewritten is what the owner wants back after an update. What stays as it is stored is
// ours, limit by limit.
func (o original) rewritten(was, d *appsv1.Deployment) original {
	had := &appsv1.RollingUpdateDeployment{}
	if u := was.Spec.Strategy.RollingUpdate; u != nil {
		had = u
	}
	if u := d.Spec.Strategy.RollingUpdate; u != nil {
		o.MaxUnavailable = wrote(had.MaxUnavailable, u.MaxUnavailable, o.MaxUnavailable)
		o.MaxSurge = wrote(had.MaxSurge, u.MaxSurge, o.MaxSurge)
	}
	if d.Spec.MinReadySeconds != foreverReady {
		o.MinReadySeconds = d.Spec.MinReadySeconds
	}
	if p := d.Spec.ProgressDeadlineSeconds; p != nil && *p != foreverDeadline {
		o.ProgressDeadlineSeconds = p
	}
	return o
}

// wrote is a limit that an update changes, or else the recorded one.
func wrote(had, is, recorded *intstr.IntOrString) *intstr.IntOrString {
	if is == nil || equality.Semantic.DeepEqual(had, is) {
		return recorded
	}
	return is
}

// wrong says why kube-apiserver refuses what the owner wrote.
func (o original) wrong() string {
	return cmp.Or(o.late(), wrongUpdate(o.update()))
}

// late is about the seconds.
func (o original) late() string {
	switch deadline := cmp.Or(o.ProgressDeadlineSeconds, new(nativeDeadline)); {
	case o.MinReadySeconds < 0:
		return "spec.minReadySeconds must not be negative"
	case *deadline <= o.MinReadySeconds:
		return "spec.progressDeadlineSeconds must be greater than minReadySeconds, or no rollout ends in time"
	}
	return ""
}

// fit replaces what kube-apiserver would refuse by what it sets where nothing is written. A record
// of Weir's own values, as earlier versions wrote it after a restore, says nothing of the owner.
func (o *original) fit() {
	if o.MinReadySeconds == foreverReady {
		*o = writtenBy(&appsv1.Deployment{})
	}
	if wrongUpdate(o.update()) != "" {
		o.MaxUnavailable, o.MaxSurge = nil, nil
	}
	if o.late() != "" {
		o.ProgressDeadlineSeconds = new(nativeDeadline)
	}
	if o.late() != "" {
		o.MinReadySeconds = 0
	}
}

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

// originalDeployment is the value of the annotation that saves the owner's settings of a Deployment.
type originalDeployment struct {
	MaxUnavailable          *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	MaxSurge                *intstr.IntOrString `json:"maxSurge,omitempty"`
	MinReadySeconds         int32               `json:"minReadySeconds"`
	ProgressDeadlineSeconds *int32              `json:"progressDeadlineSeconds,omitempty"`
}

// readOriginalDeployment returns the owner's settings, and reports whether the strategy in the spec
// is Weir's. The record may be lost after a restore of the store, or nothing may hold the workload.
// Then foreverReady in the spec shows that the values are Weir's, and the owner's are the defaults.
func readOriginalDeployment(d *appsv1.Deployment, hold Hold) (originalDeployment, bool) {
	var o originalDeployment
	if err := json.Unmarshal([]byte(d.Annotations[rollouts.AnnotationOriginalStrategy]), &o); err != nil || !hold.Active() {
		return originalOf(&appsv1.Deployment{}), d.Spec.MinReadySeconds == foreverReady
	}
	o.replaceInvalid()
	return o, true
}

// originalOf returns the owner's settings from a spec that has no settings of Weir.
func originalOf(d *appsv1.Deployment) originalDeployment {
	u := &appsv1.RollingUpdateDeployment{}
	if d.Spec.Strategy.RollingUpdate != nil {
		u = d.Spec.Strategy.RollingUpdate.DeepCopy()
	}
	setDefaults(u)
	o := originalDeployment{MaxUnavailable: u.MaxUnavailable, MaxSurge: u.MaxSurge, MinReadySeconds: d.Spec.MinReadySeconds}
	deadline := nativeDeadline
	if d.Spec.ProgressDeadlineSeconds != nil {
		deadline = *d.Spec.ProgressDeadlineSeconds
	}
	o.ProgressDeadlineSeconds = &deadline
	return o
}

func (o originalDeployment) rollingUpdate() *appsv1.RollingUpdateDeployment {
	return &appsv1.RollingUpdateDeployment{MaxUnavailable: o.MaxUnavailable, MaxSurge: o.MaxSurge}
}

// restoreTo writes the owner's settings to a Deployment.
func (o originalDeployment) restoreTo(d *appsv1.Deployment) {
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: o.rollingUpdate()}
	d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds = o.MinReadySeconds, o.ProgressDeadlineSeconds
	d.SetAnnotations(withoutKeys(d.Annotations, rollouts.AnnotationOriginalStrategy))
}

// withUpdate returns the owner's settings after an update. A field that the update does not change
// has Weir's value, so the saved one stays.
func (o originalDeployment) withUpdate(was, d *appsv1.Deployment) originalDeployment {
	had := &appsv1.RollingUpdateDeployment{}
	if u := was.Spec.Strategy.RollingUpdate; u != nil {
		had = u
	}
	if u := d.Spec.Strategy.RollingUpdate; u != nil {
		o.MaxUnavailable = changedLimit(had.MaxUnavailable, u.MaxUnavailable, o.MaxUnavailable)
		o.MaxSurge = changedLimit(had.MaxSurge, u.MaxSurge, o.MaxSurge)
	}
	if d.Spec.MinReadySeconds != foreverReady {
		o.MinReadySeconds = d.Spec.MinReadySeconds
	}
	if p := d.Spec.ProgressDeadlineSeconds; p != nil && *p != foreverDeadline {
		o.ProgressDeadlineSeconds = p
	}
	return o
}

// changedLimit returns a limit that an update changes, or else the saved one.
func changedLimit(had, is, recorded *intstr.IntOrString) *intstr.IntOrString {
	if is == nil || equality.Semantic.DeepEqual(had, is) {
		return recorded
	}
	return is
}

// validate returns why kube-apiserver refuses the owner's settings.
func (o originalDeployment) validate() string {
	return cmp.Or(o.validateSeconds(), validateRollingUpdate(o.rollingUpdate()))
}

// validateSeconds validates minReadySeconds and progressDeadlineSeconds.
func (o originalDeployment) validateSeconds() string {
	switch deadline := cmp.Or(o.ProgressDeadlineSeconds, new(nativeDeadline)); {
	case o.MinReadySeconds < 0:
		return "spec.minReadySeconds must not be negative"
	case *deadline <= o.MinReadySeconds:
		return "spec.progressDeadlineSeconds must be greater than minReadySeconds, or no rollout ends in time"
	}
	return ""
}

// replaceInvalid replaces values that kube-apiserver would refuse by the defaults. It also replaces
// a record of Weir's own values, which earlier versions wrote after a restore.
func (o *originalDeployment) replaceInvalid() {
	if o.MinReadySeconds == foreverReady {
		*o = originalOf(&appsv1.Deployment{})
	}
	if validateRollingUpdate(o.rollingUpdate()) != "" {
		o.MaxUnavailable, o.MaxSurge = nil, nil
	}
	if o.validateSeconds() != "" {
		o.ProgressDeadlineSeconds = new(nativeDeadline)
	}
	if o.validateSeconds() != "" {
		o.MinReadySeconds = 0
	}
}

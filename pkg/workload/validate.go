// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-rollouts/weir/pkg/object"
)

// What the owner writes of a held workload is put aside, or is not in force, so that
// kube-apiserver judges it only when it is given back. A give-back that is refused
// never ends. So the same rules are here: the webhook refuses by them, and nothing that
// breaks them is recorded, read from a record, or given back.

// ValidateOwnerSettings says what kube-apiserver would refuse at the give-back of what an update of a
// held workload changes; empty if nothing.
func (r Row) ValidateOwnerSettings(old, update object.Object) string {
	if r.validate == nil {
		return ""
	}
	clean := copyOf(update)
	mergePendingEdit(r, clean)
	KeepRecords(old, clean)
	return r.validate(old, clean)
}

// validateLimit is one of the limits of a rolling update, in pods or in percent, and why
// kube-apiserver refuses it.
func validateLimit(field string, v *intstr.IntOrString, bounded bool) (n int, why string) {
	percent := v.Type == intstr.String
	n, err := intstr.GetScaledValueFromIntOrPercent(v, 100, true)
	switch {
	case err != nil || percent && len(validation.IsValidPercent(v.StrVal)) > 0:
		return 0, field + " must be a number of pods, or a percentage such as 25%"
	case n < 0:
		return 0, field + " must not be negative"
	case bounded && percent && n > 100:
		return 0, field + " must not be more than 100%"
	}
	return n, ""
}

// validateRollingUpdate says why kube-apiserver refuses the limits of a Deployment.
func validateRollingUpdate(u *appsv1.RollingUpdateDeployment) string {
	const at = "spec.strategy.rollingUpdate."
	u = u.DeepCopy()
	setDefaults(u)
	unavailable, why := validateLimit(at+"maxUnavailable", u.MaxUnavailable, true)
	surge, too := validateLimit(at+"maxSurge", u.MaxSurge, false)
	if why = cmp.Or(why, too); why == "" && unavailable == 0 && surge == 0 {
		why = at + "maxUnavailable must not be 0 while maxSurge is 0"
	}
	return why
}

// validateDaemonSetUpdate says why kube-apiserver refuses the limits of a DaemonSet.
func validateDaemonSetUpdate(u *appsv1.RollingUpdateDaemonSet) string {
	const at = "spec.updateStrategy.rollingUpdate."
	one, none := intstr.FromInt32(1), intstr.FromInt32(0)
	if u == nil {
		return ""
	}
	unavailable, why := validateLimit(at+"maxUnavailable", cmp.Or(u.MaxUnavailable, &one), true)
	surge, too := validateLimit(at+"maxSurge", cmp.Or(u.MaxSurge, &none), true)
	switch why = cmp.Or(why, too); {
	case why != "":
	case unavailable == 0 && surge == 0:
		return at + "maxUnavailable must not be 0 while maxSurge is 0"
	case unavailable > 0 && surge > 0:
		return at + "maxSurge must be 0 unless maxUnavailable is 0"
	}
	return why
}

// validateDeployment is about the strategy that is saved.
func validateDeployment(oldObj, newObj object.Object) string {
	was, d := oldObj.(*appsv1.Deployment), newObj.(*appsv1.Deployment).DeepCopy()
	v, recorded := readStrategy(was)
	if !recorded || was.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return "" // kube-apiserver judges it
	}
	before := v.RollingUpdate.DeepCopy()
	takeStrategy(d, &v)
	if v.RollingUpdate == nil || equality.Semantic.DeepEqual(before, v.RollingUpdate) {
		return ""
	}
	return validateRollingUpdate(v.RollingUpdate)
}

// validateBlueGreen is about all that is saved.
func validateBlueGreen(oldObj, newObj object.Object) string {
	was, d := oldObj.(*appsv1.Deployment), newObj.(*appsv1.Deployment)
	o, ours := readOriginalDeployment(was, HoldFromRecords(was))
	if !ours {
		return validateDeployment(oldObj, newObj)
	}
	return o.withUpdate(was, d).validate()
}

// validateCanary checks the strategy only while Weir sizes the Deployment's own ReplicaSets. Otherwise
// the owner's strategy is in the spec, and kube-apiserver checks it.
func validateCanary(oldObj, newObj object.Object) string {
	if v, _ := readStrategy(oldObj); isSizedNatively(v.RollingStyle) {
		return ""
	}
	return validateDeployment(oldObj, newObj)
}

// validateCloneSet is about the partition and the limits that are saved. The CRD of a CloneSet accepts
// every string.
func validateCloneSet(oldObj, newObj object.Object) string {
	was, is := oldObj.(*CloneSet).Spec.UpdateStrategy, newObj.(*CloneSet).Spec.UpdateStrategy
	return cmp.Or(
		validateShare("partition", was.Partition, is.Partition),
		validateShare("maxUnavailable", was.MaxUnavailable, is.MaxUnavailable),
		validateShare("maxSurge", was.MaxSurge, is.MaxSurge),
	)
}

// validateShare says why a field of spec.updateStrategy that an update changes is no number of pods.
func validateShare(field string, was, is *intstr.IntOrString) string {
	if is == nil || equality.Semantic.DeepEqual(was, is) {
		return ""
	}
	_, why := validateLimit("spec.updateStrategy."+field, is, false)
	return why
}

// validShareOrNil returns a number of pods, or a percentage; nil if the value is neither.
func validShareOrNil(v *intstr.IntOrString) *intstr.IntOrString {
	if v != nil {
		if _, why := validateLimit("", v, false); why != "" {
			return nil
		}
	}
	return v
}

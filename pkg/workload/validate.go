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

// Weir saves the settings that an owner writes on a held workload and restores them at the end. So
// kube-apiserver validates them only then, and a refused restore would never end. This file repeats
// the rules of kube-apiserver: the webhook refuses invalid settings, and Weir never saves, reads or
// restores them.

// ValidateOwnerSettings returns why kube-apiserver would refuse the settings of an update when Weir
// restores them; empty if it accepts them.
func (r Row) ValidateOwnerSettings(old, update object.Object) string {
	if r.validate == nil {
		return ""
	}
	clean := copyOf(update)
	mergePendingEdit(r, clean)
	KeepRecords(old, clean)
	return r.validate(old, clean)
}

// validateLimit returns a limit of a rolling update as a number of pods or a percentage, and why
// kube-apiserver refuses it. bounded reports whether the limit must not exceed 100%.
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

// validateRollingUpdate returns why kube-apiserver refuses the limits of a Deployment.
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

// validateDaemonSetUpdate returns why kube-apiserver refuses the limits of a DaemonSet.
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

// validateDeployment validates the strategy that Weir saves. kube-apiserver validates a strategy
// that stays in the spec.
func validateDeployment(oldObj, newObj object.Object) string {
	was, d := oldObj.(*appsv1.Deployment), newObj.(*appsv1.Deployment).DeepCopy()
	v, recorded := readStrategy(was)
	if !recorded || was.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return "" // kube-apiserver validates it
	}
	before := v.RollingUpdate.DeepCopy()
	takeStrategy(d, &v)
	if v.RollingUpdate == nil || equality.Semantic.DeepEqual(before, v.RollingUpdate) {
		return ""
	}
	return validateRollingUpdate(v.RollingUpdate)
}

// validateBlueGreen validates all settings that a blue-green release saves.
func validateBlueGreen(oldObj, newObj object.Object) string {
	was, d := oldObj.(*appsv1.Deployment), newObj.(*appsv1.Deployment)
	o, ours := readOriginalDeployment(was, HoldFromRecords(was))
	if !ours {
		return validateDeployment(oldObj, newObj)
	}
	return o.withUpdate(was, d).validate()
}

// validateCanary validates the strategy only while Weir sizes the Deployment's own ReplicaSets. At
// other times the owner's strategy is in the spec, and kube-apiserver validates it.
func validateCanary(oldObj, newObj object.Object) string {
	if v, _ := readStrategy(oldObj); isSizedNatively(v.RollingStyle) {
		return ""
	}
	return validateDeployment(oldObj, newObj)
}

// validateCloneSet validates the partition and the limits. The CRD of a CloneSet accepts every
// string.
func validateCloneSet(oldObj, newObj object.Object) string {
	was, is := oldObj.(*CloneSet).Spec.UpdateStrategy, newObj.(*CloneSet).Spec.UpdateStrategy
	return cmp.Or(
		validateShare("partition", was.Partition, is.Partition),
		validateShare("maxUnavailable", was.MaxUnavailable, is.MaxUnavailable),
		validateShare("maxSurge", was.MaxSurge, is.MaxSurge),
	)
}

// validateShare returns why the new value of a field of spec.updateStrategy is not a number of pods
// or a percentage.
func validateShare(field string, was, is *intstr.IntOrString) string {
	if is == nil || equality.Semantic.DeepEqual(was, is) {
		return ""
	}
	_, why := validateLimit("spec.updateStrategy."+field, is, false)
	return why
}

// validShareOrNil returns v if it is a number of pods or a percentage, and nil otherwise.
func validShareOrNil(v *intstr.IntOrString) *intstr.IntOrString {
	if v != nil {
		if _, why := validateLimit("", v, false); why != "" {
			return nil
		}
	}
	return v
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// ValidateBatchRelease judges a new BatchRelease.
func ValidateBatchRelease(b *rollouts.BatchRelease) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&b.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateBatchSpec(&b.Spec, field.NewPath("spec"))...)
}

// ValidateBatchReleaseUpdate judges a change; what stays stays accepted.
func ValidateBatchReleaseUpdate(b, old *rollouts.BatchRelease) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&b.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("spec")
	return append(errs, sinceBefore(validateBatchSpec(&b.Spec, path), validateBatchSpec(&old.Spec, path))...)
}

func validateBatchSpec(s *rollouts.BatchReleaseSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.WorkloadRef == nil {
		errs = append(errs, field.Required(path.Child("workloadRef"), "name the workload by apiVersion, kind and name"))
	} else {
		errs = append(errs, validateRef(s.WorkloadRef, path.Child("workloadRef"))...)
	}
	return append(errs, validatePlan(&s.Plan, path.Child("releasePlan"))...)
}

func validatePlan(p *rollouts.ReleasePlan, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range p.Batches {
		errs = append(errs, validateBatch(&p.Batches[i].CanaryReplicas, path.Child("batches").Index(i).Child("canaryReplicas"))...)
	}
	if p.BatchPartition != nil && *p.BatchPartition < 0 {
		errs = append(errs, field.Invalid(path.Child("batchPartition"), *p.BatchPartition, "batches are counted from 0; leave it out to give the workload back"))
	}
	errs = append(errs, validateThreshold(p.FailureThreshold, path.Child("failureThreshold"))...)
	errs = append(errs, validateMetadata(p.PodTemplateMetadata, path.Child("patchPodTemplateMetadata"))...)
	switch p.RollingStyle {
	case "", rollouts.StylePartition, rollouts.StyleCanary, rollouts.StyleBlueGreen:
	default:
		errs = append(errs, field.NotSupported(path.Child("rollingStyle"), p.RollingStyle,
			[]rollouts.Style{rollouts.StylePartition, rollouts.StyleCanary, rollouts.StyleBlueGreen}))
	}
	switch p.FinalizingPolicy {
	case "", rollouts.WaitResume, rollouts.Immediate:
	default:
		errs = append(errs, field.NotSupported(path.Child("finalizingPolicy"), p.FinalizingPolicy,
			[]rollouts.FinalizingPolicy{rollouts.WaitResume, rollouts.Immediate}))
	}
	return errs
}

// validateBatch allows a batch of nothing, unlike a step.
func validateBatch(replicas *intstr.IntOrString, path *field.Path) field.ErrorList {
	if _, ok := percentOf(replicas); ok || replicas.Type == intstr.Int && replicas.IntVal >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, replicas.String(), `use a number, 0 or more, or a percentage from "0%" to "100%"`)}
}

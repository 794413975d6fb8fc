// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

var (
	batchStyles        = []rollouts.Style{rollouts.StylePartition, rollouts.StyleCanary, rollouts.StyleBlueGreen}
	finalizingPolicies = []rollouts.FinalizingPolicy{rollouts.WaitResume, rollouts.Immediate}
)

// ValidateBatchRelease validates a new BatchRelease.
func ValidateBatchRelease(b *rollouts.BatchRelease) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&b.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateBatchSpec(&b.Spec, field.NewPath("spec"))...)
}

// ValidateBatchReleaseUpdate validates a change. Fields that do not change stay accepted.
func ValidateBatchReleaseUpdate(b, old *rollouts.BatchRelease) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&b.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("spec")
	return append(errs, newErrors(validateBatchSpec(&b.Spec, path), validateBatchSpec(&old.Spec, path))...)
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
		// A batch of nothing is allowed, unlike a step of nothing.
		errs = append(errs, validateAmount(&p.Batches[i].CanaryReplicas, path.Child("batches").Index(i).Child("canaryReplicas"))...)
	}
	if p.BatchPartition != nil && *p.BatchPartition < 0 {
		errs = append(errs, field.Invalid(path.Child("batchPartition"), *p.BatchPartition, "batches are counted from 0; leave it out to give the workload back"))
	}
	errs = append(errs, validateAmount(p.FailureThreshold, path.Child("failureThreshold"))...)
	errs = append(errs, validateMetadata(p.PodTemplateMetadata, path.Child("patchPodTemplateMetadata"))...)
	if p.RollingStyle != "" {
		errs = append(errs, validateOneOf(p.RollingStyle, batchStyles, path.Child("rollingStyle"))...)
	}
	if p.FinalizingPolicy != "" {
		errs = append(errs, validateOneOf(p.FinalizingPolicy, finalizingPolicies, path.Child("finalizingPolicy"))...)
	}
	return errs
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// strategy is the strategy for writes of the main resource: users may change everything but the status. The
// server itself sets the generation, the finalizer and the annotation with the hash of the plan.
type strategy struct {
	genericStrategy
	// rules are the administrator's options for validation.
	rules validation.Options
	// maker creates the commands of decisions that an edit implies.
	maker commandMaker
}

// PrepareForCreate replaces the status by the initial one. Its condition Reconciling prevents tools from
// considering the Rollout complete before the controller has seen it. For the canary and partition styles
// it has the key that Argo CD's health check reads.
func (strategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	r := obj.(*rollouts.Rollout)
	r.Generation = 1
	delete(r.Annotations, rollouts.AnnotationDecide)
	r.Status = rollouts.RolloutStatus{Phase: rollouts.PhaseInitial}
	r.Status.SetCondition(rollouts.Condition{
		Type: rollouts.ConditionReconciling, Status: metav1.ConditionTrue,
		Reason: string(rollouts.PhaseInitial), Message: "Rollout waits for its controller",
	}, r.CreationTimestamp)
	if style, release := r.Spec.Strategy.Active(); release != nil && style != rollouts.StyleBlueGreen {
		r.Status.SetActive(style, &rollouts.Progress{})
	}
	setServerFields(r)
}

// PrepareForUpdate keeps the stored status, records decisions that the update implies, and increments the
// generation if the spec changed.
func (s strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.genericStrategy.PrepareForUpdate(ctx, obj, old)
	r := obj.(*rollouts.Rollout)
	keepAnalysis(ctx, r, old.(*rollouts.Rollout))
	recordEndOfPause(ctx, r, old.(*rollouts.Rollout), s.maker)
	storeAnnotationDecision(ctx, r)
	setServerFields(r)
}

// keepAnalysis keeps the checks of a plan if a PUT has none: a client that was built without the field
// would remove them unintentionally. A patch, an apply, or the value {} removes them.
func keepAnalysis(ctx context.Context, r, old *rollouts.Rollout) {
	_, plan := r.Spec.Strategy.Active()
	_, stored := old.Spec.Strategy.Active()
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	if !ok || info.Verb != "update" || plan == nil || stored == nil || plan.Analysis != nil || stored.Analysis == nil {
		return
	}
	plan.Analysis = stored.Analysis.DeepCopy()
	warning.AddWarning(ctx, "", "this PUT has no analysis, so the stored analysis was kept; to remove it, send analysis: {}")
}

// setServerFields sets the finalizer and the hash of the plan, so that no controller has to write them.
func setServerFields(r *rollouts.Rollout) {
	if r.DeletionTimestamp == nil && !slices.Contains(r.Finalizers, rollouts.FinalizerRollout) {
		r.Finalizers = append(r.Finalizers, rollouts.FinalizerRollout)
	}
	_, release := r.Spec.Strategy.Active()
	if release == nil {
		return
	}
	if r.Annotations == nil {
		r.Annotations = map[string]string{}
	}
	r.Annotations[rollouts.AnnotationHash] = planner.PlanHash(release)
}

func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	r := obj.(*rollouts.Rollout)
	return validation.Judge(validation.ValidateSize(validation.WeighRollout(r), nil), func() field.ErrorList {
		return validation.ValidateRollout(r, s.validationOptions(ctx))
	})
}

func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	r, stored := obj.(*rollouts.Rollout), old.(*rollouts.Rollout)
	return validation.Judge(s.validateSize(ctx, r, stored), func() field.ErrorList {
		errs := validation.ValidateRolloutUpdate(r, stored, s.validationOptions(ctx))
		if err := verb.ValidateEdit(stored, &r.Spec); err != nil {
			style, _ := r.Spec.Strategy.Active()
			errs = append(errs, field.Forbidden(field.NewPath("spec", "strategy", style.Key()), err.Error()))
		}
		return errs
	})
}

// validateSize limits the size of objects that other users than the controller write. The controller itself limits
// what it writes.
func (s strategy) validateSize(ctx context.Context, r, stored *rollouts.Rollout) field.ErrorList {
	if s.Access.IsController(ctx) {
		return nil
	}
	return validation.ValidateSize(validation.WeighRollout(r), validation.WeighRollout(stored))
}

func (s strategy) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	r := obj.(*rollouts.Rollout)
	warnings := append(validation.RolloutWarnings(r, s.validationOptions(ctx)), validation.FinalizerWarnings(r, nil)...)
	return append(warnings, routeWarnings(r)...)
}

func (s strategy) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	r, stored := obj.(*rollouts.Rollout), old.(*rollouts.Rollout)
	// A tool that applies the same manifest again gets no warning again.
	told := append(validation.RolloutWarnings(stored, s.validationOptions(ctx)), routeWarnings(stored)...)
	warnings := append(validation.RolloutWarnings(r, s.validationOptions(ctx)), routeWarnings(r)...)
	warnings = slices.DeleteFunc(warnings, func(w string) bool { return slices.Contains(told, w) })
	return slices.Concat(warnings, validation.FinalizerWarnings(r, stored), editWarnings(r, stored))
}

// routeWarnings returns warnings about steps that the router cannot route. Without the warning, the user
// would learn of it when the release waits at the step.
func routeWarnings(r *rollouts.Rollout) []string {
	style, release := r.Spec.Strategy.Active()
	return traffic.Warnings(release, "spec.strategy."+style.Key())
}

// validationOptions returns the validation options for the API version of the request.
func (s strategy) validationOptions(ctx context.Context) validation.Options {
	rules := s.rules
	rules.Version = requestVersion(ctx)
	return rules
}

// requestVersion returns the API version of the request.
func requestVersion(ctx context.Context) string {
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok {
		return info.APIVersion
	}
	return ""
}

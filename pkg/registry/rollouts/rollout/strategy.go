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

// strategy is what a user of the main resource may change: everything but the
// status. The server itself keeps the generation, the finalizer and the
// annotation that identifies the plan.
type strategy struct {
	plainStrategy
	// rules are what an administrator decides about validation.
	rules validation.Options
	// maker makes the decisions that an edit amounts to.
	maker commandMaker
}

// PrepareForCreate drops the status. From the beginning it says that somebody
// has still to look at the Rollout, or tools would take it for released, and has
// for the canary and partition styles the key that Argo CD's health check reads.
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

// PrepareForUpdate keeps the status and counts generations of the spec.
func (s strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.plainStrategy.PrepareForUpdate(ctx, obj, old)
	r := obj.(*rollouts.Rollout)
	keepAnalysis(ctx, r, old.(*rollouts.Rollout))
	recordEndOfPause(ctx, r, old.(*rollouts.Rollout), s.maker)
	recordAnnotated(ctx, r)
	setServerFields(r)
}

// keepAnalysis keeps the checks of a plan where a PUT has none: a client that was built
// without the field would remove them unseen. A patch, an apply, or {} removes them.
func keepAnalysis(ctx context.Context, r, old *rollouts.Rollout) {
	_, plan := r.Spec.Strategy.Active()
	_, stored := old.Spec.Strategy.Active()
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	if !ok || info.Verb != "update" || plan == nil || stored == nil || plan.Analysis != nil || stored.Analysis == nil {
		return
	}
	plan.Analysis = stored.Analysis.DeepCopy()
	warning.AddWarning(ctx, "", "the analysis of the plan is kept, which this PUT does not have; to remove it, patch it or send {}")
}

// setServerFields sets the finalizer and the plan hash, which the server keeps on
// every Rollout, so that no controller has to write them.
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
		return validation.ValidateRollout(r, s.rulesFor(ctx))
	})
}

func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	r, stored := obj.(*rollouts.Rollout), old.(*rollouts.Rollout)
	return validation.Judge(s.weigh(ctx, r, stored), func() field.ErrorList {
		errs := validation.ValidateRolloutUpdate(r, stored, s.rulesFor(ctx))
		if err := verb.ValidateEdit(stored, &r.Spec); err != nil {
			style, _ := r.Spec.Strategy.Active()
			errs = append(errs, field.Forbidden(field.NewPath("spec", "strategy", style.Key()), err.Error()))
		}
		return errs
	})
}

// weigh judges the size of what others than the controller make of the object:
// what that writes is bounded where it is decided.
func (s strategy) weigh(ctx context.Context, r, stored *rollouts.Rollout) field.ErrorList {
	if s.Drivers.Controls(ctx) {
		return nil
	}
	return validation.ValidateSize(validation.WeighRollout(r), validation.WeighRollout(stored))
}

func (s strategy) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	r := obj.(*rollouts.Rollout)
	warnings := append(validation.RolloutWarnings(r, s.rulesFor(ctx)), validation.FinalizerWarnings(r, nil)...)
	return append(warnings, routeWarnings(r)...)
}

func (s strategy) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	r, stored := obj.(*rollouts.Rollout), old.(*rollouts.Rollout)
	warnings := append(validation.RolloutWarnings(r, s.rulesFor(ctx)), validation.FinalizerWarnings(r, stored)...)
	told := routeWarnings(stored)
	return append(warnings, slices.DeleteFunc(routeWarnings(r), func(w string) bool { return slices.Contains(told, w) })...)
}

// routeWarnings are about steps that could not be routed: they would wait when
// it is too late to ask why.
func routeWarnings(r *rollouts.Rollout) []string {
	style, release := r.Spec.Strategy.Active()
	return traffic.Warnings(release, "spec.strategy."+style.Key())
}

// rulesFor are the rules of the API version that the client speaks.
func (s strategy) rulesFor(ctx context.Context) validation.Options {
	rules := s.rules
	rules.Version = versionOf(ctx)
	return rules
}

// versionOf is the API version that the client speaks.
func versionOf(ctx context.Context) string {
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok {
		return info.APIVersion
	}
	return ""
}

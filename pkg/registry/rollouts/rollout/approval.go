// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// endsPause reports whether an update sets the pause of the waiting step to zero, whatever else it changes:
// some clients approve through the spec. Any other change of a pause is an edit of the plan.
func endsPause(r, stored *rollouts.Rollout) bool {
	p := stored.Status.Active()
	if p == nil || stored.Status.Phase != rollouts.PhaseProgressing || p.State != rollouts.StepPaused {
		return false
	}
	_, next := r.Spec.Strategy.Active()
	_, last := stored.Spec.Strategy.Active()
	after, before := next.Step(p.CurrentStepIndex), last.Step(p.CurrentStepIndex)
	return after != nil && before != nil && isZero(after.Pause.Duration) && !isZero(before.Pause.Duration)
}

func isZero(duration *int32) bool { return duration != nil && *duration == 0 }

// completeUpdate restores the fields that an older API version does not have. It refuses an update that approves
// if the user may not promote, or if a promotion is not possible.
func (r *REST) completeUpdate(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
	next, stored := obj.(*rollouts.Rollout), old.(*rollouts.Rollout)
	clearAttempt(ctx)
	if stored.ResourceVersion == "" {
		return obj, nil
	}
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok && info.APIVersion == v1alpha1.SchemeGroupVersion.Version {
		v1alpha1.Preserve(next, stored)
		if info.Verb == "update" {
			v1alpha1.PreserveOlder(&next.Spec, &stored.Spec)
		}
	}
	if !endsPause(next, stored) {
		return obj, r.applyDecideAnnotation(ctx, next, stored)
	}
	// An update makes at most one decision: the edit of the pause takes precedence over the annotation.
	delete(next.Annotations, rollouts.AnnotationDecide)
	if err := r.access.checkDecision(ctx, "rollouts", stored.Name, "the pause of the waiting step to 0", rollouts.VerbPromote); err != nil {
		return nil, err
	}
	if _, err := applyVerb(ctx, stored.DeepCopy(), r.maker.newCommand(ctx, rollouts.VerbPromote, rollouts.ViaSpec)); err != nil {
		return nil, toAPIError("Rollout", stored.Name, field.NewPath("spec"), err)
	}
	return obj, nil
}

// recordEndOfPause records the approval in the same write. completeUpdate has checked, against the
// same stored object, that the approval is possible.
func recordEndOfPause(ctx context.Context, r, stored *rollouts.Rollout, maker commandMaker) {
	if !endsPause(r, stored) {
		return
	}
	decided := stored.DeepCopy()
	if _, err := verb.Apply(decided, maker.newCommand(ctx, rollouts.VerbPromote, rollouts.ViaSpec)); err == nil {
		r.Status = decided.Status
	}
}

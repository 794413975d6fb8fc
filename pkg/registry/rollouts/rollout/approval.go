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

// endsPause reports whether an edit of the spec sets the pause of the waiting step to
// zero, whatever else it changes: some clients approve through the spec. Any other
// edit of a pause is an edit of the plan.
func endsPause(r, stored *rollouts.Rollout) bool {
	p := stored.Status.Active()
	if p == nil || stored.Status.Phase != rollouts.PhaseProgressing || p.State != rollouts.StepPaused {
		return false
	}
	_, next := r.Spec.Strategy.Active()
	_, last := stored.Spec.Strategy.Active()
	after, before := next.Step(p.CurrentStepIndex), last.Step(p.CurrentStepIndex)
	return after != nil && before != nil && none(after.Pause.Duration) && !none(before.Pause.Duration)
}

func none(duration *int32) bool { return duration != nil && *duration == 0 }

// complete restores the fields that an older version does not have. An edit that
// approves is refused if the user may not promote, or a promotion is not possible.
func (r *REST) complete(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
	next, stored := obj.(*rollouts.Rollout), old.(*rollouts.Rollout)
	forgetAttempt(ctx)
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
		return obj, r.annotated(ctx, next, stored)
	}
	// One write is one decision.
	delete(next.Annotations, rollouts.AnnotationDecide)
	if err := r.drivers.mayDecide(ctx, "rollouts", stored.Name, "the pause of the waiting step to 0", rollouts.VerbPromote); err != nil {
		return nil, err
	}
	if _, err := decide(ctx, stored.DeepCopy(), r.maker.command(ctx, rollouts.VerbPromote, rollouts.ViaSpec)); err != nil {
		return nil, refused("Rollout", stored.Name, field.NewPath("spec"), err)
	}
	return obj, nil
}

// recordEndOfPause records the approval in the same write. complete has checked that
// it is possible, with the same stored object.
func recordEndOfPause(ctx context.Context, r, stored *rollouts.Rollout, maker commandMaker) {
	if !endsPause(r, stored) {
		return
	}
	decided := stored.DeepCopy()
	if _, err := verb.Apply(decided, maker.command(ctx, rollouts.VerbPromote, rollouts.ViaSpec)); err == nil {
		r.Status = decided.Status
	}
}

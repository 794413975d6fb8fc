// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/endpoint"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// progressStrategy is the update strategy of the status. It keeps the stored metadata, spec and decisions.
// StatusREST has checked before which other part of the status the writer may change.
type progressStrategy struct {
	statusStrategy
	main strategy
}

func (s progressStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	fields := s.statusStrategy.GetResetFields()
	for _, set := range fields {
		set.Insert(fieldpath.MakePathOrDie("status", "decisions"))
	}
	return fields
}

func (s progressStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.statusStrategy.PrepareForUpdate(ctx, obj, old)
	obj.(*rollouts.Rollout).Status.Clean()
}

func (s progressStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	r, stored := obj.(*rollouts.Rollout), old.(*rollouts.Rollout)
	return validation.Judge(s.main.validateSize(ctx, r, stored), func() field.ErrorList {
		return validation.ValidateRolloutStatusUpdate(r, stored, s.main.validationOptions(ctx))
	})
}

// StatusREST serves the status subresource. A user who may "update rollouts/progress" writes the status of
// a release. Any other user can only express decisions by writing it, as clients of OpenKruise do.
type StatusREST struct {
	*endpoint.StatusREST
	access *Access
	maker  commandMaker
}

// Update implements rest.Updater.
func (s *StatusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	w := &statusWrite{StatusREST: s, name: name}
	var err error
	if w.mayWriteProgress, err = s.access.MayWriteProgress(ctx); err != nil {
		return nil, false, err
	}
	ctx, tried := withAttempt(ctx)
	out, created, err := s.Store.Update(ctx, name, rest.WrapUpdatedObjectInfo(info, w.prepareStatus), create, update, false, options)
	tried.recordOutcome(ctx, name, dryrun.IsDryRun(options.DryRun), err)
	if err == nil && w.warning != "" {
		warning.AddWarning(ctx, "", w.warning)
	}
	return out, created, err
}

// statusWrite is one request that writes a status.
type statusWrite struct {
	*StatusREST
	name string
	// mayWriteProgress reports whether the writer may change more than decisions.
	mayWriteProgress bool
	warning          string
}

// prepareStatus turns the sent object into the object to be stored. After a conflict it runs again with the object
// that is stored then.
func (w *statusWrite) prepareStatus(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
	r, stored := obj.(*rollouts.Rollout), old.(*rollouts.Rollout)
	if r.ResourceVersion != stored.ResourceVersion || stored.ResourceVersion == "" {
		// The store refuses a missing or outdated resourceVersion, and an object that does not exist.
		return r, nil
	}
	w.warning = ""
	clearAttempt(ctx)
	sent := findSentDecision(&r.Status, &stored.Status)
	if w.mayWriteProgress && !w.isDecisionOnly(ctx, sent, r, stored) {
		if !w.access.IsController(ctx) {
			restoreUnknownFields(&r.Status, &stored.Status)
			if err := verb.ValidateStatus(stored, &r.Status); err != nil {
				return nil, toAPIError("Rollout", w.name, field.NewPath("status"), err)
			}
		}
		r.Status.Decisions = mergeOutcomes(r.Status.Decisions, stored.Status.Decisions)
		if err := verb.Automatic(&stored.Status, &r.Status, func() verb.Command { return w.maker.newCommand(ctx, "", rollouts.ViaAnalysis) }); err != nil {
			return nil, toAPIError("Rollout", w.name, field.NewPath("status", "decisions"), err)
		}
		return r, nil
	}
	next := stored.DeepCopy()
	keepForeignConditions(&next.Status, r.Status.Conditions)
	if sent.verb != "" {
		if err := w.applyDecision(ctx, sent, next); err != nil {
			return nil, err
		}
	}
	if sent.verb == "" {
		w.warning = warnIgnoredFields(&r.Status, &stored.Status)
	}
	r.Status = next.Status
	return r, nil
}

// applyDecision applies a decision that was sent as a write of the status.
func (w *statusWrite) applyDecision(ctx context.Context, sent sentDecision, r *rollouts.Rollout) error {
	if err := w.access.checkDecision(ctx, "rollouts/status", w.name, sent.path.String(), sent.verb); err != nil {
		return err
	}
	command := w.maker.newCommand(ctx, sent.verb, rollouts.ViaStatus)
	command.Step = sent.step
	warn, err := applyVerb(ctx, r, command)
	if err != nil {
		return toAPIError("Rollout", w.name, sent.path, err)
	}
	w.warning = warn
	return nil
}

// isDecisionOnly reports whether a user who may write the whole status only approves or jumps, as a client
// does that sets one field. A writer of progress also sets lastUpdateTime; the controller always does.
func (w *statusWrite) isDecisionOnly(ctx context.Context, sent sentDecision, r, stored *rollouts.Rollout) bool {
	if w.access.IsController(ctx) || sent.verb == "" || stored.Status.Active() == nil {
		return false
	}
	return r.Status.Active().LastUpdateTime.Equal(stored.Status.Active().LastUpdateTime)
}

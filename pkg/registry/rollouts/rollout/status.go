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
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/plain"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// progressStrategy keeps everything but the status, and the decisions in it. Which
// part of the status a writer may change is settled before, in StatusREST.
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
	return validation.Judge(s.main.weigh(ctx, r, stored), func() field.ErrorList {
		return validation.ValidateRolloutStatusUpdate(r, stored, s.main.rulesFor(ctx))
	})
}

// StatusREST serves the status subresource. A user who may "update rollouts/progress"
// writes the status of a release; any other user writes decisions into it, as
// clients of OpenKruise do.
type StatusREST struct {
	*plain.StatusREST
	drivers *Drivers
	maker   commandMaker
}

// Update implements rest.Updater.
func (s *StatusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	w := &statusWrite{StatusREST: s, name: name}
	var err error
	if w.progress, err = s.drivers.Drives(ctx); err != nil {
		return nil, false, err
	}
	ctx, tried := withAttempt(ctx)
	out, created, err := s.Store.Update(ctx, name, rest.WrapUpdatedObjectInfo(info, w.settle), create, update, false, options)
	tried.recordOutcome(ctx, name, dryrun.IsDryRun(options.DryRun), err)
	if err == nil && w.warning != "" {
		warning.AddWarning(ctx, "", w.warning)
	}
	return out, created, err
}

// statusWrite is one request to write a status.
type statusWrite struct {
	*StatusREST
	name string
	// progress reports whether the writer may change more than decisions.
	progress bool
	warning  string
}

// settle turns what a writer sent into what is stored. It may run several times, each
// with the object that is stored then.
func (w *statusWrite) settle(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
	r, stored := obj.(*rollouts.Rollout), old.(*rollouts.Rollout)
	if r.ResourceVersion != stored.ResourceVersion || stored.ResourceVersion == "" {
		// The store refuses a missing or outdated version, or a missing object.
		return r, nil
	}
	w.warning = ""
	forgetAttempt(ctx)
	sent := sentDecisionOf(&r.Status, &stored.Status)
	if w.progress && !w.decidesOnly(ctx, sent, r, stored) {
		if !w.drivers.Controls(ctx) {
			keepUnknownFields(&r.Status, &stored.Status)
			if err := verb.ValidateStatus(stored, &r.Status); err != nil {
				return nil, refused("Rollout", w.name, field.NewPath("status"), err)
			}
		}
		r.Status.Decisions = settleOutcomes(r.Status.Decisions, stored.Status.Decisions)
		if err := verb.Automatic(&stored.Status, &r.Status, func() verb.Command { return w.maker.command(ctx, "", rollouts.ViaAnalysis) }); err != nil {
			return nil, refused("Rollout", w.name, field.NewPath("status", "decisions"), err)
		}
		return r, nil
	}
	next := stored.DeepCopy()
	keepForeignConditions(&next.Status, r.Status.Conditions)
	if sent.verb != "" {
		if err := w.decide(ctx, sent, next); err != nil {
			return nil, err
		}
	}
	if sent.verb == "" {
		w.warning = ignoredFields(&r.Status, &stored.Status)
	}
	r.Status = next.Status
	return r, nil
}

// decide records a decision that was sent as a write of the status.
func (w *statusWrite) decide(ctx context.Context, sent sentDecision, r *rollouts.Rollout) error {
	if err := w.drivers.mayDecide(ctx, "rollouts/status", w.name, sent.path.String(), sent.verb); err != nil {
		return err
	}
	command := w.maker.command(ctx, sent.verb, rollouts.ViaStatus)
	command.Step = sent.step
	warn, err := decide(ctx, r, command)
	if err != nil {
		return refused("Rollout", w.name, sent.path, err)
	}
	w.warning = warn
	return nil
}

// decidesOnly reports whether a user who may write everything only approves or jumps, as
// a client does that sets the one field. A writer of progress sets the time at which
// the release entered its state; the controller always does.
func (w *statusWrite) decidesOnly(ctx context.Context, sent sentDecision, r, stored *rollouts.Rollout) bool {
	if w.drivers.Controls(ctx) || sent.verb == "" || stored.Status.Active() == nil {
		return false
	}
	return r.Status.Active().LastUpdateTime.Equal(stored.Status.Active().LastUpdateTime)
}

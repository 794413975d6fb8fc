// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/clock"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

// statusStrategy keeps everything but the status. Which part of the status a
// writer may change is settled before, in StatusREST.
type statusStrategy struct{ strategy }

var _ rest.RESTUpdateStrategy = statusStrategy{}

// GetResetFields implements rest.ResetFieldsStrategy.
func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return inBothVersions(fieldpath.MakePathOrDie("metadata"), fieldpath.MakePathOrDie("spec"),
		fieldpath.MakePathOrDie("status", "decisions"))
}

// PrepareForUpdate keeps the spec and the metadata.
func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	r := obj.(*rollouts.Rollout)
	keepAllButStatus(r, old.(*rollouts.Rollout))
	r.Status.Clean()
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s statusStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	r, stored := obj.(*rollouts.Rollout), old.(*rollouts.Rollout)
	return validation.Judge(s.weigh(ctx, r, stored), func() field.ErrorList {
		return validation.ValidateRolloutStatusUpdate(r, stored, s.rulesFor(ctx))
	})
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (statusStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// keepAllButStatus restores what a writer of the status must not change.
// Managed fields are about the status, too.
func keepAllButStatus(r, stored *rollouts.Rollout) {
	managed := r.ManagedFields
	r.ObjectMeta = *stored.ObjectMeta.DeepCopy()
	r.ManagedFields = managed
	r.Spec = stored.Spec
}

// StatusREST serves the status subresource. Who may "update rollouts/progress"
// writes the status of a release; anybody else writes decisions into it, as
// clients of OpenKruise do.
type StatusREST struct {
	permissions
	store      *registry.Store
	clock      clock.PassiveClock
	controller string
}

var (
	_ rest.Patcher             = (*StatusREST)(nil)
	_ rest.ResetFieldsStrategy = (*StatusREST)(nil)
	_ rest.TableConvertor      = (*StatusREST)(nil)
)

// New implements rest.Storage.
func (s *StatusREST) New() runtime.Object { return &rollouts.Rollout{} }

// Destroy implements rest.Storage; the store is shared and destroyed once.
func (s *StatusREST) Destroy() {}

// GetResetFields implements rest.ResetFieldsStrategy.
func (s *StatusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.store.GetResetFields()
}

// Get implements rest.Getter, which patches need.
func (s *StatusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

// ConvertToTable implements rest.TableConvertor.
func (s *StatusREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, obj, options)
}

// Update implements rest.Updater.
func (s *StatusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	w := &statusWrite{StatusREST: s, name: name}
	// Asked for all names of the namespace, so that the answer is cached well.
	progress, err := w.may(ctx, "update", "progress", "")
	if err != nil {
		return nil, false, err
	}
	w.progress = progress
	ctx, said := attempting(ctx)
	out, created, err := s.store.Update(ctx, name, rest.WrapUpdatedObjectInfo(info, w.settle), create, update, false, options)
	said.recordOutcome(ctx, name, dryrun.IsDryRun(options.DryRun), err)
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

// settle turns what a writer sent into what is stored. It may run several
// times, each with the object that is stored by then.
func (w *statusWrite) settle(ctx context.Context, obj, old runtime.Object) (runtime.Object, error) {
	r, stored := obj.(*rollouts.Rollout), old.(*rollouts.Rollout)
	if r.ResourceVersion != stored.ResourceVersion || stored.ResourceVersion == "" {
		// The store answers a missing or outdated version, or a missing object.
		return r, nil
	}
	w.warning = ""
	again(ctx)
	sent := sentDecisionOf(&r.Status, &stored.Status)
	if w.progress && !w.decidesOnly(ctx, sent, r, stored) {
		if userName(ctx) != w.controller {
			keepUnsaid(&r.Status, &stored.Status)
		}
		r.Status.Decisions = settleOutcomes(r.Status.Decisions, stored.Status.Decisions)
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
		w.warning = unwritten(&r.Status, &stored.Status)
	}
	r.Status = next.Status
	return r, nil
}

// decide records a decision that came as a write of the status.
func (w *statusWrite) decide(ctx context.Context, sent sentDecision, r *rollouts.Rollout) error {
	if err := w.mayDecide(ctx, "rollouts/status", w.name, sent.path.String(), sent.verb); err != nil {
		return err
	}
	command := commandFrom(ctx, sent.verb, rollouts.ViaStatus, w.clock)
	command.Step = sent.step
	warn, err := decide(ctx, r, command)
	if err != nil {
		return refused("Rollout", w.name, sent.path, err)
	}
	w.warning = warn
	return nil
}

// decidesOnly reports whether somebody who may write everything meant only to approve
// or to jump, as a client does that sets the one field. Whoever moves a release
// on says when it entered the state; the controller always does.
func (w *statusWrite) decidesOnly(ctx context.Context, sent sentDecision, r, stored *rollouts.Rollout) bool {
	if userName(ctx) == w.controller || sent.verb == "" || stored.Status.Active() == nil {
		return false
	}
	return r.Status.Active().LastUpdateTime.Equal(stored.Status.Active().LastUpdateTime)
}

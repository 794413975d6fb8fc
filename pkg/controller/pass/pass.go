// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package pass runs passes: it observes, decides, commits, announces and applies, in
// this order (ADR 3). The reconcilers run it against the API server, and the stories of
// the planner against their own store. It must not know what is observed or decided.
package pass

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Decision is what a pass decided about an object with a status S.
type Decision[S any] struct {
	// Rule names what decided, for logs and transcripts.
	Rule string
	// Status is the whole next status, never a patch.
	Status S
	// Filings are histories to be stored before the actions.
	Filings []planner.Filing
	// Actions are carried out in their order; each says when.
	Actions []planner.Action
	// Events are announced once Status is stored.
	Events []planner.Event
	// Wake says when to look again; zero means when something changes.
	Wake time.Duration
	// Questions are what is to be measured until the next pass.
	Questions []planner.Question
}

// Steps are those of the passes over objects of one kind, observed as an O with a status S.
type Steps[O, S any] struct {
	// Observe returns nil where there is nothing to decide about.
	Observe func(context.Context, types.NamespacedName) (*O, error)
	Decide  func(*O) Decision[S]
	// Claim reports whether the decision may be stored now; nil where it always may.
	Claim func(*O, Decision[S]) bool
	// Status is the stored status, and Commit stores the next one at the version that
	// the observation is based on.
	Status func(*O) S
	Commit func(context.Context, *O, S) error
	// Stored is told each decision that is stored; nil where nobody wants to know.
	Stored func(context.Context, *O, Decision[S])
	// Announce announces events; nil where nobody listens.
	Announce func(*O, []planner.Event)
	// Act carries out one action, and File stores one history; it fails with ErrEnding in a
	// namespace that ends.
	Act  func(context.Context, *O, planner.Action) error
	File func(context.Context, *O, planner.Filing) error
	// RecordWriteError is the status that has a write which the server denies, and reports whether
	// that is to be announced; nil where the status has no place for it.
	RecordWriteError func(*O, planner.WriteError) (next S, news bool)
	// Again is how soon to look again whatever was decided; zero where a watch tells.
	Again func(*O) time.Duration
	// NoLater limits the backoff of a failed pass to the time until its planned wake-up; nil if
	// the queue does not support that.
	NoLater func(reconcile.Request, time.Duration)
	// Values are keys and values for each line of the log.
	Values func(Decision[S]) []any
}

// Run runs one pass over the object of a name. It ends without a decision where there is
// nothing to observe, and with the first step that fails. Of the filings it returns those that
// are stored.
func (s Steps[O, S]) Run(ctx context.Context, key types.NamespacedName) (o *O, d Decision[S], err error) {
	if o, err = s.Observe(ctx, key); o == nil || err != nil {
		return nil, d, err
	}
	d = s.Decide(o)
	if s.Values != nil {
		ctx = logf.IntoContext(ctx, logf.FromContext(ctx).WithValues(s.Values(d)...))
	}
	first := s.carryOut(ctx, o, planner.At(planner.BeforeStatus, d.Actions))
	// If the server denies that write, the status is stored all the same.
	if _, denied := cluster.WriteError(first); first != nil && !denied {
		return o, d, first
	}
	if err = s.commit(ctx, o, d); err != nil {
		return o, d, errors.Join(err, first)
	}
	if first != nil {
		d.Events = slices.DeleteFunc(slices.Clone(d.Events), func(e planner.Event) bool { return e.When == planner.BeforeStatus })
	}
	if s.Stored != nil {
		s.Stored(ctx, o, d)
	}
	if s.Announce != nil {
		s.Announce(o, d.Events)
	}
	d.Filings, err = s.apply(ctx, o, d, first)
	return o, d, err
}

// commit stores the next status. Before an effect even an unchanged one is sent: the
// server refuses it when somebody moved.
func (s Steps[O, S]) commit(ctx context.Context, o *O, d Decision[S]) error {
	if s.Claim != nil && !s.Claim(o, d) {
		return cluster.ErrBehind
	}
	log := logf.FromContext(ctx).WithValues("reason", d.Rule, "actions", len(d.Actions), "wake", d.Wake)
	writes := slices.ContainsFunc(d.Actions, func(a planner.Action) bool { return a.When == planner.AfterStatus || a.When == planner.Independent })
	if !writes && len(d.Filings) == 0 && equality.Semantic.DeepEqual(s.Status(o), d.Status) {
		log.V(4).Info("Planned")
		return nil
	}
	err := s.Commit(ctx, o, d.Status)
	if err == nil {
		log.V(2).Info("Planned")
	}
	return err
}

// apply files what is to be filed and carries out the actions. An object does not wait for
// its history, unless it is about to go.
func (s Steps[O, S]) apply(ctx context.Context, o *O, d Decision[S], first error) (stored []planner.Filing, err error) {
	stored, filed := s.file(ctx, o, d)
	if filed != nil && planner.HasEffect(d.Actions, leaves) {
		if !hopeless(filed) {
			return stored, filed
		}
		logf.FromContext(ctx).Error(filed, "Leaving without a history")
		filed = nil
	}
	acted := s.carryOut(ctx, o, planner.At(planner.AfterStatus, d.Actions))
	var independent, fromStored error
	if first == nil {
		independent = s.carryOut(ctx, o, planner.At(planner.Independent, d.Actions))
		fromStored = s.carryOut(ctx, o, planner.At(planner.FromStored, d.Actions))
	}
	return stored, errors.Join(s.recordWriteError(ctx, o, first, acted, independent, fromStored), filed)
}

// file stores what is to be filed and returns what is stored: nothing is in a namespace
// that ends, which is no failure.
func (s Steps[O, S]) file(ctx context.Context, o *O, d Decision[S]) (stored []planner.Filing, err error) {
	for _, f := range d.Filings {
		logf.FromContext(ctx).Info("Filing history", "release", f.Release.Number, "outcome", f.Release.Outcome)
		switch err := s.File(ctx, o, f); {
		case err == nil:
			stored = append(stored, f)
		case !errors.Is(err, cluster.ErrEnding):
			return stored, err
		}
	}
	return stored, nil
}

// Store is how a kind commits: it stores a status, and keeps the object as it is stored then
// where the observation has it.
func Store[O, T, S any](at func(*O) **T, store func(context.Context, *T, S) (*T, error)) func(context.Context, *O, S) error {
	return func(ctx context.Context, o *O, status S) error {
		stored, err := store(ctx, *at(o), status)
		if err == nil {
			*at(o) = stored
		}
		return err
	}
}

// hopeless reports whether a history cannot be stored, however often it is tried: the
// namespace is being deleted, or this program may not. Nor does an object that is about to go
// wait for room in the store: it makes room.
func hopeless(err error) bool {
	return apierrors.IsForbidden(err) || cluster.NotFound(err) || apierrors.IsInvalid(err) || apierrors.ReasonForError(err) == "InsufficientStorage"
}

// carryOut carries out actions in their order, until one fails.
func (s Steps[O, S]) carryOut(ctx context.Context, o *O, actions []planner.Action) error {
	for _, action := range actions {
		logf.FromContext(ctx).Info("Acting", "action", action.Effect.String(), "reason", action.Reason)
		if err := s.Act(ctx, o, action); err != nil {
			return err
		}
	}
	return nil
}

// leaves reports whether an effect removes the finalizer, after which the object may be gone.
func leaves(e planner.Effect) bool {
	_, drops := e.(planner.DropFinalizer)
	return drops
}

// recordWriteError notes that the server has denied something, of several the first: to note
// each in turn would be news each time. The planner takes that back when nothing is to be
// written any more.
func (s Steps[O, S]) recordWriteError(ctx context.Context, o *O, errs ...error) error {
	err := errors.Join(errs...)
	i := slices.IndexFunc(errs, func(err error) bool { _, denied := cluster.WriteError(err); return denied })
	if i < 0 || s.RecordWriteError == nil {
		return err
	}
	denial, _ := cluster.WriteError(errs[i])
	next, news := s.RecordWriteError(o, denial)
	if !equality.Semantic.DeepEqual(s.Status(o), next) {
		if commit := s.Commit(ctx, o, next); commit != nil {
			return errors.Join(err, commit)
		}
	}
	if news && s.Announce != nil {
		s.Announce(o, []planner.Event{{Warning: true, Reason: planner.EventDenied, Message: denial.Message}})
	}
	return err
}

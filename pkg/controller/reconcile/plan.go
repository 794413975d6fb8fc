// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package reconcile executes the plan for one object: it stores the next status, records events and
// carries out the actions, in this order (ADR 3). The reconcilers execute their plans on the API server,
// and the planner's story tests on a store in memory. The package does not decide anything.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Plan is what one pass decided about an object that has a status S.
type Plan[S any] struct {
	// Rule is the name of the rule that decided, for logs and transcripts.
	Rule string
	// Status is the whole next status, never a patch.
	Status S
	// Histories are stored before the actions are carried out.
	Histories []planner.HistoryEntry
	// Actions are carried out in their order. The field When of each says whether before or after Status
	// is stored.
	Actions []planner.Action
	// Events are recorded after Status is stored.
	Events []planner.Event
	// RequeueAfter is the time until the next pass; zero if the next pass begins when something changes.
	RequeueAfter time.Duration
}

// Object is the object of one pass, as it was observed.
type Object[S any] interface {
	// Status returns the status that is stored.
	Status() S
	// Commit stores the next status at the resourceVersion that was observed.
	Commit(ctx context.Context, next S) error
	// AfterCommit is called after the status is stored and before events are recorded.
	AfterCommit(context.Context)
	// RecordEvents records events about the object.
	RecordEvents([]planner.Event)
	// StoreHistory stores one history. It fails with cluster.ErrNamespaceTerminating in a namespace that
	// is being deleted.
	StoreHistory(context.Context, planner.HistoryEntry) error
	// Act carries out one action.
	Act(context.Context, planner.Action) error
	// WithWriteError returns the status with the condition that the server denies a write, and reports
	// whether an event must announce the condition. The result ok is false if the status has no place for
	// the condition.
	WithWriteError(planner.WriteError) (next S, announce, ok bool)
}

// Defaults has the methods of Object that do nothing for many objects.
type Defaults struct{}

// AfterCommit implements Object.
func (Defaults) AfterCommit(context.Context) {}

// RecordEvents implements Object.
func (Defaults) RecordEvents([]planner.Event) {}

// StoreHistory implements Object.
func (Defaults) StoreHistory(context.Context, planner.HistoryEntry) error { return nil }

// Execute stores the status of a plan and carries out its actions. It stops at the first step that fails,
// and returns the histories that it has stored.
func Execute[S any](ctx context.Context, o Object[S], p Plan[S]) (histories []planner.HistoryEntry, err error) {
	before := Apply(ctx, o.Act, p.Actions, planner.BeforeStatus)
	if _, denied := cluster.AsWriteError(before); before != nil && !denied {
		return nil, before
	}
	// A denied BeforeStatus action must not keep the status from being stored: an abort moves traffic
	// back even if nobody may write the BatchRelease.
	if err := commit(ctx, o, p); err != nil {
		return nil, errors.Join(err, before)
	}
	events := p.Events
	if before != nil { // the action was denied, and the next pass finds the same again
		events = slices.DeleteFunc(slices.Clone(events), func(e planner.Event) bool { return e.When == planner.BeforeStatus })
	}
	o.AfterCommit(ctx)
	o.RecordEvents(events)

	histories, historyErr := storeHistories(ctx, o, p.Histories)
	if historyErr != nil && planner.HasEffect(p.Actions, removesFinalizer) {
		if !isPermanentHistoryError(historyErr) {
			return histories, historyErr // after its last action the object may not exist
		}
		logf.FromContext(ctx).Error(historyErr, "Leaving without a history")
		historyErr = nil
	}

	after := Apply(ctx, o.Act, p.Actions, planner.AfterStatus)
	var independent, fromStored error
	if before == nil {
		independent = Apply(ctx, o.Act, p.Actions, planner.Independent)
		fromStored = Apply(ctx, o.Act, p.Actions, planner.FromStored)
	}
	return histories, errors.Join(storeWriteError(ctx, o, before, after, independent, fromStored), historyErr)
}

// Apply carries out the actions of the given time in their order, and stops at the first that fails.
func Apply(ctx context.Context, act func(context.Context, planner.Action) error, actions []planner.Action, when planner.When) error {
	for _, action := range planner.ActionsAt(when, actions) {
		logf.FromContext(ctx).Info("Acting", "action", action.Effect.String(), "reason", action.Reason)
		if err := act(ctx, action); err != nil {
			return err
		}
	}
	return nil
}

// commit stores the next status. If actions follow, commit also writes an unchanged status: the server
// refuses the write if the object has changed since it was observed, and then no action must be carried
// out.
func commit[S any](ctx context.Context, o Object[S], p Plan[S]) error {
	log := logf.FromContext(ctx).WithValues("reason", p.Rule, "actions", len(p.Actions), "wake", p.RequeueAfter)
	acts := slices.ContainsFunc(p.Actions, func(a planner.Action) bool { return a.When == planner.AfterStatus || a.When == planner.Independent })
	if !acts && len(p.Histories) == 0 && equality.Semantic.DeepEqual(o.Status(), p.Status) {
		log.V(4).Info("Planned")
		return nil
	}
	if err := o.Commit(ctx, p.Status); err != nil {
		return err
	}
	log.V(2).Info("Planned")
	return nil
}

// storeHistories stores histories and returns those that are stored. In a namespace that is being
// deleted no history can be stored, which is not an error.
func storeHistories[S any](ctx context.Context, o Object[S], histories []planner.HistoryEntry) (stored []planner.HistoryEntry, err error) {
	for _, h := range histories {
		switch err := o.StoreHistory(ctx, h); {
		case err == nil:
			stored = append(stored, h)
		case !errors.Is(err, cluster.ErrNamespaceTerminating):
			return stored, err
		}
	}
	return stored, nil
}

// isPermanentHistoryError reports whether a retry cannot store the history: the namespace is being
// deleted, or the controller has no permission. A full store counts, too, because the deletion of the
// object makes room.
func isPermanentHistoryError(err error) bool {
	return apierrors.IsForbidden(err) || cluster.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.ReasonForError(err) == "InsufficientStorage"
}

func removesFinalizer(e planner.Effect) bool {
	_, ok := e.(planner.RemoveFinalizer)
	return ok
}

// storeWriteError stores the condition that the server denies a write, and returns all errors joined. If
// several writes were denied, it stores only the first, because alternating conditions would record an
// event in every pass. The planner removes the condition when there is nothing left to write.
func storeWriteError[S any](ctx context.Context, o Object[S], errs ...error) error {
	err := errors.Join(errs...)
	i := slices.IndexFunc(errs, func(err error) bool { _, denied := cluster.AsWriteError(err); return denied })
	if i < 0 {
		return err
	}
	writeError, _ := cluster.AsWriteError(errs[i])
	next, announce, ok := o.WithWriteError(writeError)
	if !ok {
		return err
	}
	if !equality.Semantic.DeepEqual(o.Status(), next) {
		if commitErr := o.Commit(ctx, next); commitErr != nil {
			return errors.Join(err, commitErr)
		}
	}
	if announce {
		o.RecordEvents([]planner.Event{{Warning: true, Reason: planner.EventDenied, Message: writeError.Message}})
	}
	return err
}

// PassResult returns the result of a pass for controller-runtime. The next pass begins after the plan's
// RequeueAfter or after the parameter requeueAfter, whichever is shorter. After a failed pass, limitBackoff
// (nil for no limit) limits the backoff to the plan's RequeueAfter, so that a timed pause ends on time.
func PassResult[S any](req ctrl.Request, p Plan[S], requeueAfter time.Duration, limitBackoff func(ctrl.Request, time.Duration), err error) (ctrl.Result, error) {
	switch {
	case cluster.IsOwnObjectGone(err, req.Name):
		return ctrl.Result{}, nil
	case err != nil:
		if limitBackoff != nil && p.RequeueAfter > 0 {
			limitBackoff(req, p.RequeueAfter)
		}
		return Result(fmt.Errorf("applying %q: %w", p.Rule, err))
	}
	return ctrl.Result{RequeueAfter: Sooner(p.RequeueAfter, requeueAfter)}, nil
}

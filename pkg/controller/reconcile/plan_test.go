// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/reconcile"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// object implements reconcile.Object with a string as status. It records the calls.
type object struct {
	status  string
	answers map[planner.Effect]error
	// history is the error that StoreHistory returns.
	history error
	did     []string
}

func (o *object) Status() string { return o.status }

func (o *object) Commit(_ context.Context, next string) error {
	o.did, o.status = append(o.did, "store "+next), next
	return nil
}

func (o *object) AfterCommit(context.Context) {}

func (o *object) RecordEvents(events []planner.Event) {
	for _, e := range events {
		o.did = append(o.did, "announce "+e.Reason)
	}
}

func (o *object) StoreHistory(context.Context, planner.HistoryEntry) error { return o.history }

func (o *object) Act(_ context.Context, a planner.Action) error {
	o.did = append(o.did, a.Effect.String())
	return o.answers[a.Effect]
}

func (o *object) WithWriteError(e planner.WriteError) (next string, announce, ok bool) {
	next = "denied: " + e.Reason
	return next, next != o.status, true
}

// If several writes are denied, only the first is stored in the status. If a BeforeStatus action is denied,
// its events are not recorded, because the next pass finds the same again. The status is stored all the
// same and the AfterStatus actions are carried out, so that an abort moves traffic back. Independent and
// FromStored actions are not carried out, because they need the result of the denied action.
func TestDenials(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(appsv1.Resource("deployments"), "web", errors.New("nobody may"))
	invalid := apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind(), "web", nil)
	conflict := apierrors.NewConflict(appsv1.Resource("deployments"), "web", errors.New("moved"))
	first, act := planner.PinService{Revision: "first"}, planner.PinService{Revision: "act"}
	independent, stored := planner.PinService{Revision: "independent"}, planner.PinService{Revision: "from stored"}
	plan := reconcile.Plan[string]{
		Status: "next",
		Actions: slices.Concat(
			planner.NewActions(planner.BeforeStatus, "test", first), planner.NewActions(planner.AfterStatus, "test", act),
			planner.NewActions(planner.Independent, "test", independent), planner.NewActions(planner.FromStored, "test", stored)),
		Events: []planner.Event{{Reason: "Released"}, {Reason: "Found", When: planner.BeforeStatus}},
	}
	for name, tc := range map[string]struct {
		answers map[planner.Effect]error
		want    []string
	}{
		"nothing": {nil, []string{first.String(), "store next", "announce Released", "announce Found", act.String(), independent.String(), stored.String()}},
		"two": {
			map[planner.Effect]error{act: invalid, independent: forbidden},
			[]string{first.String(), "store next", "announce Released", "announce Found", act.String(), independent.String(), stored.String(), "store denied: Invalid", "announce WriteDenied"},
		},
		"what is stored first": {
			map[planner.Effect]error{first: forbidden},
			[]string{first.String(), "store next", "announce Released", act.String(), "store denied: Forbidden", "announce WriteDenied"},
		},
		"a conflict is none": {map[planner.Effect]error{first: conflict}, []string{first.String()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &object{answers: tc.answers}
			if _, err := reconcile.Execute(t.Context(), o, plan); (err != nil) != (tc.answers != nil) {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, o.did); diff != "" {
				t.Errorf("did (-want +got):\n%s", diff)
			}
		})
	}
}

// Execute returns the stored histories, so that the next pass begins at once: the controller does not watch
// histories. In a namespace that is being deleted no history can be stored.
func TestStoredHistoriesAreReturned(t *testing.T) {
	t.Parallel()
	for answer, want := range map[error]int{nil: 1, cluster.ErrNamespaceTerminating: 0} {
		histories, err := reconcile.Execute(t.Context(), &object{history: answer}, reconcile.Plan[string]{Histories: []planner.HistoryEntry{{}}})
		if err != nil || len(histories) != want {
			t.Errorf("answer %v: %d histories are stored (%v), want %d", answer, len(histories), err, want)
		}
	}
}

// A Rollout that is being deleted waits for its history, unless the history can never be stored.
func TestLeavesWithoutHistory(t *testing.T) {
	t.Parallel()
	histories := rollouts.Resource("rollouthistories")
	leave := planner.RemoveFinalizer{}
	for name, tc := range map[string]struct {
		answer error
		leaves bool
	}{
		"stored":             {nil, true},
		"namespace ends":     {cluster.ErrNamespaceTerminating, true},
		"namespace has gone": {apierrors.NewNotFound(histories, "web-1"), true},
		"not allowed":        {apierrors.NewForbidden(histories, "web-1", nil), true},
		"not served":         {apierrors.NewGenericServerResponse(http.StatusNotFound, "POST", histories, "web-1", "404 page not found", 0, true), false},
		"unavailable":        {apierrors.NewServiceUnavailable("down"), false},
	} {
		o := &object{history: tc.answer}
		_, err := reconcile.Execute(t.Context(), o, reconcile.Plan[string]{Histories: []planner.HistoryEntry{{}}, Actions: planner.NewActions(planner.AfterStatus, "test", leave)})
		if leaves := slices.Contains(o.did, leave.String()); leaves != tc.leaves || (err == nil) != tc.leaves {
			t.Errorf("%s: leaves: %t, want %t (%v)", name, leaves, tc.leaves, err)
		}
	}
}

// A failed pass returns its error, so that controller-runtime counts it and backs off. The next pass begins
// at the plan's RequeueAfter at the latest.
func TestFailureKeepsWake(t *testing.T) {
	t.Parallel()
	req := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}
	for _, wake := range []time.Duration{0, 5 * time.Second, 20 * time.Second} {
		due := time.Duration(0)
		limitBackoff := func(of ctrl.Request, after time.Duration) {
			if of != req {
				t.Errorf("the request is %s", of)
			}
			due = after
		}
		result, err := reconcile.PassResult(req, reconcile.Plan[string]{RequeueAfter: wake}, time.Second, limitBackoff, errors.New("the server is away"))
		if err == nil || result != (ctrl.Result{}) {
			t.Errorf("wake in %s: the pass returns %+v and the error %v", wake, result, err)
		}
		if due != wake {
			t.Errorf("wake in %s: the next pass is due in %s", wake, due)
		}
	}
}

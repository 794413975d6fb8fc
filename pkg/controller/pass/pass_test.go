// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package pass_test

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/pass"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// object is what passes are about here: its status is what is noted in it.
type object struct{ status string }

// run is a kind whose passes do what they are told, and write down what they do.
type run struct {
	decision pass.Decision[string]
	answers  map[planner.Effect]error
	stored   object
	did      []string
}

func (r *run) steps() pass.Steps[object, string] {
	return pass.Steps[object, string]{
		Observe: func(context.Context, types.NamespacedName) (*object, error) { o := r.stored; return &o, nil },
		Decide:  func(*object) pass.Decision[string] { return r.decision },
		Status:  func(o *object) string { return o.status },
		Commit: func(_ context.Context, o *object, status string) error {
			r.did = append(r.did, "store "+status)
			o.status, r.stored.status = status, status
			return nil
		},
		Act: func(_ context.Context, _ *object, a planner.Action) error {
			r.did = append(r.did, a.Effect.String())
			return r.answers[a.Effect]
		},
		RecordWriteError: func(o *object, e planner.WriteError) (string, bool) {
			next := "denied: " + e.Reason
			return next, next != o.status
		},
		Announce: func(_ *object, events []planner.Event) {
			for _, e := range events {
				r.did = append(r.did, "announce "+e.Reason)
			}
		},
		Again: func(*object) time.Duration { return 0 },
	}
}

// Of what is denied in one pass the first is noted, once. Events of a record that is denied are
// not announced: the next pass finds the same again. A record that is denied does not keep
// the status from being stored, nor what that wants: an abort routes back. What goes by the
// record itself is not done: a plan that acts is stored before it acts.
func TestDenials(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(appsv1.Resource("deployments"), "web", errors.New("nobody may"))
	invalid := apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind(), "web", nil)
	conflict := apierrors.NewConflict(appsv1.Resource("deployments"), "web", errors.New("moved"))
	first, act := planner.Pin{Revision: "first"}, planner.Pin{Revision: "act"}
	independent, stored := planner.Pin{Revision: "independent"}, planner.Pin{Revision: "from stored"}
	decision := pass.Decision[string]{
		Status: "next",
		Actions: slices.Concat(
			planner.Actions(planner.BeforeStatus, "test", first), planner.Actions(planner.AfterStatus, "test", act),
			planner.Actions(planner.Independent, "test", independent), planner.Actions(planner.FromStored, "test", stored)),
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
			r := &run{decision: decision, answers: tc.answers}
			if _, _, err := r.steps().Run(t.Context(), types.NamespacedName{}); (err != nil) != (tc.answers != nil) {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, r.did); diff != "" {
				t.Errorf("did (-want +got):\n%s", diff)
			}
		})
	}
}

// A history that is stored is seen by another pass at once, since no watch tells of it. Where none
// can be stored, as in a namespace that ends, no pass would see more.
func TestFiledIsLookedAt(t *testing.T) {
	t.Parallel()
	over := rollouts.ReleaseRecord{Number: 1, EndTime: &metav1.Time{Time: time.Unix(1_800_000_000, 0)}}
	for answer, want := range map[error]time.Duration{nil: 20 * time.Millisecond, cluster.ErrEnding: 5 * time.Second} {
		r := &run{decision: pass.Decision[string]{Filings: []planner.Filing{{Release: over}}, Wake: 5 * time.Second}}
		steps := r.steps()
		steps.File = func(context.Context, *object, planner.Filing) error { return answer }
		if result, err := steps.Reconcile(t.Context(), ctrl.Request{}); err != nil || result.RequeueAfter != want {
			t.Errorf("filing: %v: looks again after %s (%v), want %s", answer, result.RequeueAfter, err, want)
		}
	}
}

// A Rollout that is about to go waits for its history, but not where none can be stored.
func TestLeavesWithoutHistory(t *testing.T) {
	t.Parallel()
	histories := rollouts.Resource("rollouthistories")
	leave := planner.DropFinalizer{}
	for name, tc := range map[string]struct {
		answer error
		leaves bool
	}{
		"stored":             {nil, true},
		"namespace ends":     {cluster.ErrEnding, true},
		"namespace has gone": {apierrors.NewNotFound(histories, "web-1"), true},
		"not allowed":        {apierrors.NewForbidden(histories, "web-1", nil), true},
		"not served":         {apierrors.NewGenericServerResponse(http.StatusNotFound, "POST", histories, "web-1", "404 page not found", 0, true), false},
		"unavailable":        {apierrors.NewServiceUnavailable("down"), false},
	} {
		r := &run{decision: pass.Decision[string]{Filings: []planner.Filing{{}}, Actions: planner.Actions(planner.AfterStatus, "test", leave)}}
		steps := r.steps()
		steps.File = func(context.Context, *object, planner.Filing) error { return tc.answer }
		_, _, err := steps.Run(t.Context(), types.NamespacedName{})
		if leaves := slices.Contains(r.did, leave.String()); leaves != tc.leaves || (err == nil) != tc.leaves {
			t.Errorf("%s: leaves: %t, want %t (%v)", name, leaves, tc.leaves, err)
		}
	}
}

// A pass that fails returns its error, which counts and backs off, and is tried again no later
// than it would have looked again without the error.
func TestFailureKeepsWake(t *testing.T) {
	t.Parallel()
	act := planner.Pin{Revision: "act"}
	req := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}
	for _, wake := range []time.Duration{0, 5 * time.Second, 20 * time.Second} {
		r := &run{
			decision: pass.Decision[string]{Actions: planner.Actions(planner.AfterStatus, "test", act), Wake: wake},
			answers:  map[planner.Effect]error{act: errors.New("the server is away")},
		}
		due, steps := time.Duration(0), r.steps()
		steps.NoLater = func(of ctrl.Request, after time.Duration) {
			if of != req {
				t.Errorf("it says so of %s", of)
			}
			due = after
		}
		if result, err := steps.Reconcile(t.Context(), req); err == nil || result != (ctrl.Result{}) {
			t.Errorf("wake in %s: the pass returns %+v and the error %v", wake, result, err)
		}
		if due != wake {
			t.Errorf("wake in %s: the next pass is due in %s", wake, due)
		}
	}
}

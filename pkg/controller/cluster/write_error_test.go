// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/batchrelease"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/rollout"
)

// TestRecordWriteError runs passes whose write the server first denies and then allows. The object gets a condition and one
// event. Retries write nothing else. The condition is removed when there is nothing left to write.
func TestRecordWriteError(t *testing.T) {
	forbidden := apierrors.NewForbidden(appsv1.Resource("deployments"), "web", errors.New("nobody may"))
	const noted = `Forbidden: changing deployment/web: deployments.apps "web" is forbidden: nobody may`
	for name, of := range map[string]client.Object{"rollout": &v1beta1.Rollout{}, "batchrelease": &v1beta1.BatchRelease{}} {
		t.Run(name, func(t *testing.T) {
			s := newServerFor(t, name)
			var answer error = forbidden
			c := interceptor.NewClient(s.WithWatch, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					if answer != nil {
						s.writes = append(s.writes, "denied")
						return answer
					}
					return c.Patch(ctx, o, p, opts...)
				},
			})
			server := cluster.Server{Reader: cluster.Reader{Client: c, Live: s.WithWatch, Indexes: s.WithWatch}}
			told := events.NewFakeRecorder(10)
			passes := map[string]reconciler{
				"rollout":      &rollout.Reconciler{Server: server, Recorder: told, Clock: newFakeClock(), AdmissionStatus: cluster.AdmissionStatus{Reader: s.WithWatch}},
				"batchrelease": &batchrelease.Reconciler{Server: server, Recorder: told, Clock: newFakeClock()},
			}
			pass := func() (says string) {
				s.writes = nil
				_, err := passes[name].Reconcile(t.Context(), request)
				if denied := answer != nil; (err != nil) != denied {
					t.Fatal(err)
				}
				if err := s.Get(t.Context(), request.NamespacedName, of); err != nil {
					t.Fatal(err)
				}
				for _, condition := range conditionsOf(of) {
					if condition.Type == v1beta1.ConditionWritable {
						says = condition.Reason + ": " + condition.Message
					}
				}
				return says
			}
			stored := "store status of web"
			steps := []struct {
				answer error
				want   []string
				says   string
			}{
				{forbidden, []string{stored, "denied", stored}, noted},
				// Retries store the status before they act, which changes nothing.
				{forbidden, []string{stored, "denied"}, noted},
				{forbidden, []string{stored, "denied"}, noted},
				// One that says something else each time is not written each time.
				{apierrors.NewForbidden(appsv1.Resource("deployments"), "web", fmt.Errorf("request %d", 7)), []string{stored, "denied"}, noted},
				{nil, []string{stored, "change web"}, noted},
			}
			for i, step := range steps {
				answer = step.answer
				says := pass()
				if diff := cmp.Diff(step.want, s.writes); diff != "" || says != step.says {
					t.Errorf("pass %d says %q (-want +writes):\n%s", i, says, diff)
				}
			}
			says := noted
			for range 5 { // until nothing is to be written
				if says = pass(); says == "" {
					break
				}
			}
			if says != "" {
				t.Errorf("it still says %q", says)
			}
			if len(told.Events) != 1 {
				t.Errorf("%d events, want one", len(told.Events))
			}
		})
	}
}

func conditionsOf(o client.Object) []v1beta1.Condition {
	if b, ok := o.(*v1beta1.BatchRelease); ok {
		return b.Status.Conditions
	}
	r, _ := o.(*v1beta1.Rollout)
	return r.Status.Conditions
}

// TestAsWriteError distinguishes denied writes from temporary failures.
func TestAsWriteError(t *testing.T) {
	webhook := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 400, Message: `admission webhook "a" denied the request`}}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"forbidden": {fmt.Errorf("creating: %w", apierrors.NewForbidden(appsv1.Resource("deployments"), "web", errors.New("no"))), "Forbidden"},
		"invalid":   {apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind(), "web", nil), "Invalid"},
		"webhook":   {errors.Join(webhook), "Denied"},
		"webhook down": {&apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError,
			Message: `Internal error occurred: failed calling webhook "a.b.c": Post "https://d": dial tcp: connection refused`,
		}}, "InternalError"},
		"server error": {apierrors.NewInternalError(errors.New("etcd is full")), ""},
		"conflict":     {apierrors.NewConflict(appsv1.Resource("deployments"), "web", nil), ""},
		"unavailable":  {apierrors.NewServiceUnavailable("down"), ""},
		"too many":     {apierrors.NewTooManyRequests("slow", 1), ""},
		"gone":         {apierrors.NewNotFound(appsv1.Resource("deployments"), "web"), ""},
		"no answer":    {context.DeadlineExceeded, ""},
		"nothing":      {nil, ""},
	} {
		d, denied := cluster.AsWriteError(tc.err)
		if d.Reason != tc.want || denied != (tc.want != "") {
			t.Errorf("%s: %v, %q; want %q", name, denied, d.Reason, tc.want)
		}
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
)

// In a namespace that is being deleted, a history is not created. This is not an error, and the history does not count as
// stored: otherwise a pass would look for it again and again.
func TestNoHistoryWhereNamespaceEnds(t *testing.T) {
	t.Parallel()
	ends := apierrors.NewForbidden(rollouts.Resource("rollouthistories"), "web-1", errors.New("it is being terminated"))
	ends.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	s := newServer(t)
	over := metav1.NewTime(newFakeClock().Now())
	web := &v1beta1.Rollout{}
	if err := s.Get(t.Context(), request.NamespacedName, web); err != nil {
		t.Fatal(err)
	}
	web.Finalizers = []string{"example.com/kept"}
	if err := s.Update(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	web.Status.Phase = v1beta1.PhaseTerminating
	web.Status.Releases = []v1beta1.ReleaseRecord{{Number: 1, Kept: true, StartTime: over, EndTime: &over}}
	if err := s.WithWatch.Status().Update(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	creates := 0
	c := interceptor.NewClient(s.WithWatch, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			creates++
			return ends
		},
	})
	result, err := reconcilers["rollout"](cluster.Server{Reader: cluster.Reader{Client: c, Live: c, Indexes: c}}).Reconcile(t.Context(), request)
	if err != nil || creates != 1 || result.RequeueAfter != 0 {
		t.Errorf("%d histories tried, looks again after %s, %v", creates, result.RequeueAfter, err)
	}
}

// TestNamespaceEnds distinguishes a create in a namespace that is being deleted from a forbidden create.
func TestNamespaceEnds(t *testing.T) {
	t.Parallel()
	answer := apierrors.NewForbidden(corev1.Resource("configmaps"), "a", errors.New("it is being terminated"))
	server := cluster.Server{Reader: cluster.Reader{Client: interceptor.NewClient(newServer(t).WithWatch, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return answer },
	})}}
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	if err := server.Create(t.Context(), made); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want what the server says", err)
	}
	answer.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	if err := server.Create(t.Context(), made); err != nil {
		t.Error(err)
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
)

// TestIsOwnObjectGone checks that a deleted Rollout is not a failure, and that every other missing object is.
func TestIsOwnObjectGone(t *testing.T) {
	gone := newServer(t)
	ctx := t.Context()
	err := gone.WithWatch.Status().Update(ctx, &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "gone", Name: "web"}})
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"the Rollout":     {fmt.Errorf("writing: %w", err), true},
		"among others":    {errors.Join(nil, err), true},
		"another one":     {apierrors.NewNotFound(rollouts.Resource("rollouts"), "other"), false},
		"a Service":       {apierrors.NewNotFound(corev1.Resource("services"), "web"), false},
		"the namespace":   {apierrors.NewNotFound(corev1.Resource("namespaces"), "default"), false},
		"nothing served":  {apierrors.NewGenericServerResponse(404, "PUT", rollouts.Resource("rollouts"), "web", "404 page not found", 0, true), false},
		"another failure": {apierrors.NewForbidden(rollouts.Resource("rollouts"), "web", nil), false},
		"none":            {nil, false},
	} {
		if got := cluster.IsOwnObjectGone(tc.err, "web"); got != tc.want {
			t.Errorf("%s: %t, want %t (%v)", name, got, tc.want, tc.err)
		}
	}
}

// TestUnserved checks that no object counts as deleted while no server serves its API. Otherwise a pass would create a second
// BatchRelease, or forget one that still has to restore its workload.
func TestUnserved(t *testing.T) {
	about := metav1.ObjectMeta{Namespace: "gone", Name: "web", UID: "uid", Finalizers: []string{rollouts.FinalizerBatchRelease}}
	for name, tc := range map[string]struct {
		answer error
		fails  bool
	}{
		"gone":       {apierrors.NewNotFound(rollouts.Resource("batchreleases"), "web"), false},
		"not served": {apierrors.NewGenericServerResponse(http.StatusNotFound, "", rollouts.Resource("batchreleases"), "web", "404 page not found", 0, true), true},
	} {
		answers := newClientBuilder(t).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return tc.answer
			},
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return tc.answer
			},
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return tc.answer },
		}).Build()
		s := cluster.Server{Reader: cluster.Reader{Client: answers, Live: answers}}
		_, read := s.BatchRelease(t.Context(), types.NamespacedName{Namespace: "gone", Name: "web"})
		for what, err := range map[string]error{
			"read":             read,
			"delete":           s.DeleteBatchRelease(t.Context(), &rollouts.BatchRelease{ObjectMeta: about}),
			"remove finalizer": s.RemoveFinalizer(t.Context(), &rollouts.BatchRelease{ObjectMeta: about}, rollouts.FinalizerBatchRelease),
		} {
			if (err != nil) != tc.fails {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
}

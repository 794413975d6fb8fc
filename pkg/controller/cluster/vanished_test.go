// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
)

// TestVanished keeps quiet about a Rollout that has gone, and about nothing else that
// is not found.
func TestVanished(t *testing.T) {
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
		if got := cluster.Vanished(tc.err, "web"); got != tc.want {
			t.Errorf("%s: %t, want %t (%v)", name, got, tc.want, tc.err)
		}
	}
}

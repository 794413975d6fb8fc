// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestMissingRollouts checks that a Rollout counts as missing only if the server has none: not if only the cache has
// none, and not if the server cannot answer.
func TestMissingRollouts(t *testing.T) {
	web := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	other := web.DeepCopy()
	other.Name = "other"
	for name, tc := range map[string]struct {
		cached, stored []client.Object
		down           error
		want           []string
		fails          bool
	}{
		"there":        {[]client.Object{web, other}, nil, apierrors.NewServiceUnavailable("down"), nil, false},
		"gone":         {[]client.Object{other}, []client.Object{other}, nil, []string{"web"}, false},
		"both gone":    {nil, nil, nil, []string{"web", "other"}, false},
		"not seen yet": {[]client.Object{other}, []client.Object{web, other}, nil, nil, false},
		"unavailable":  {[]client.Object{other}, nil, apierrors.NewServiceUnavailable("down"), nil, true},
		"not served":   {[]client.Object{other}, nil, apierrors.NewGenericServerResponse(404, "list", rollouts.Resource("rollouts"), "", "", 0, true), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := newServer(t).Scheme()
			byName := func(o client.Object) []string { return []string{o.GetName()} }
			live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.stored...).WithIndex(web, metav1.ObjectNameField, byName).
				WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					if tc.down != nil {
						return tc.down
					}
					return c.List(ctx, l, opts...)
				}}).Build()
			s := cluster.Reader{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.cached...).Build(), Live: live}
			marks := []string{rollouts.FinalizerTrafficRouting, planner.ProgressingFinalizer("web"), planner.ProgressingFinalizer("other")}
			gone, err := s.MissingRollouts(t.Context(), &rollouts.TrafficRouting{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "front", Finalizers: marks}})
			if diff := cmp.Diff(tc.want, gone); diff != "" || (err != nil) != tc.fails {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// cluster is a Finder. It contains the objects of its keys; a missing key is an object that does not exist,
// and an error is a failed lookup.
type cluster map[string]error

func (c cluster) Exists(ctx context.Context, _ string, ref rollouts.ObjectRef) (bool, error) {
	err, there := c[ref.Kind+" "+ref.Name]
	if errors.Is(err, context.DeadlineExceeded) {
		<-ctx.Done()
	}
	return there && err == nil, err
}

// warnings collects the warnings of a response.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

func routed(deployment, service, ingress, route string) *rollouts.Rollout {
	return &rollouts.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
		Spec: rollouts.RolloutSpec{
			WorkloadRef: &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment},
			Strategy: rollouts.Strategy{Canary: &rollouts.Release{TrafficRoutings: []rollouts.TrafficRoutingRef{{
				Service: service, Ingress: &rollouts.IngressRef{Name: ingress}, Gateway: &rollouts.GatewayRef{HTTPRouteName: &route},
			}}}},
		},
	}
}

// A reference to an object that does not exist causes one warning with the path of the field. A lookup that
// takes too long causes no warning.
func TestReferral(t *testing.T) {
	t.Parallel()
	const (
		noDeployment = `spec.workloadRef.name: there is no Deployment "web" in namespace "ns" yet`
		noService    = `spec.strategy.canary.trafficRoutings[0].service: there is no Service "svc" in namespace "ns" yet`
		noIngress    = `spec.strategy.canary.trafficRoutings[0].ingress.name: there is no Ingress "in" in namespace "ns" yet`
		noRoute      = `spec.strategy.canary.trafficRoutings[0].gateway.httpRouteName: there is no HTTPRoute "route" in namespace "ns" yet`
	)
	full := routed("web", "svc", "in", "route")
	gone := full.DeepCopy()
	gone.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	green := routed("web", "svc", "", "")
	green.Spec.Strategy = rollouts.Strategy{BlueGreen: green.Spec.Strategy.Canary}
	tests := map[string]struct {
		finder      Finder
		old, stored *rollouts.Rollout
		want        warnings
	}{
		"nothing there":      {cluster{}, nil, full, warnings{noDeployment, noService, noIngress, noRoute}},
		"all there":          {cluster{"Deployment web": nil, "Service svc": nil, "Ingress in": nil, "HTTPRoute route": nil}, nil, full, nil},
		"some there":         {cluster{"Deployment web": nil, "Ingress in": nil}, nil, full, warnings{noService, noRoute}},
		"an error":           {cluster{"Deployment web": errors.New("forbidden")}, nil, full, warnings{noService, noIngress, noRoute}},
		"no answer in time":  {cluster{"Service svc": context.DeadlineExceeded}, nil, full, warnings{noDeployment, noIngress, noRoute}},
		"named before":       {cluster{}, full, full, nil},
		"another Deployment": {cluster{}, routed("other", "svc", "in", "route"), full, warnings{noDeployment}},
		"being deleted":      {cluster{}, nil, gone, nil},
		"no cluster":         {nil, nil, full, nil},
		"blue-green": {cluster{"Deployment web": nil}, nil, green, warnings{
			`spec.strategy.blueGreen.trafficRoutings[0].service: there is no Service "svc" in namespace "ns" yet`,
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got warnings
				ctx := warning.WithWarningRecorder(t.Context(), &got)
				f := &referenceWarner{finder: tt.finder}
				if tt.old != nil {
					if _, err := f.rememberStored(ctx, tt.stored, tt.old); err != nil {
						t.Fatal(err)
					}
				}
				began := time.Now()
				f.warnMissing(ctx, tt.stored)
				if took := time.Since(began); took > findTimeout { // of the test's own clock
					t.Errorf("it took %s", took)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("warnings (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A warning for a client of v1alpha1 contains the path in that version.
func TestReferralOfOldClient(t *testing.T) {
	t.Parallel()
	var got warnings
	ctx := genericapirequest.WithRequestInfo(t.Context(), &genericapirequest.RequestInfo{APIVersion: "v1alpha1"})
	f := &referenceWarner{finder: cluster{"Service svc": nil}}
	f.warnMissing(warning.WithWarningRecorder(ctx, &got), routed("web", "svc", "", ""))
	want := warnings{`spec.objectRef.workloadRef.name: there is no Deployment "web" in namespace "ns" yet`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

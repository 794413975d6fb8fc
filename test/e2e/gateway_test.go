// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
	"github.com/weir-rollouts/weir/test/patience"
)

var gatewayV1 = schema.GroupVersion{Group: "gateway.networking.k8s.io", Version: "v1"}

// TestGatewayV1 releases with routes of the Gateway API v1. The test plays the gateway. Another
// test installs older CRDs with the same names, so this test does not run in parallel with others
// and runs before them.
func TestGatewayV1(t *testing.T) {
	plurals := []string{"httproutes", "grpcroutes"}
	installCRDs(t, gatewayKinds(t, "traefik", plurals...)...)
	t.Run("routes", gatewayRoutes)
	uninstallGatewayAPI(t, plurals)
	start(t, planWithoutTraffic()) // weir-controller has restarted
}

func gatewayRoutes(t *testing.T) {
	byHeader := manualStep("2")
	byHeader.Matches = []v1beta1.RouteMatch{{Headers: []v1beta1.ValueMatch{{Type: new("Exact"), Name: "user", Value: "me"}}}}
	for kind, tc := range map[string]struct {
		spec, narrowed string
		names          func(*v1beta1.TrafficRoutingRef)
	}{
		"HTTPRoute": {
			`{"parentRefs":[{"name":"edge"}],"rules":[{"matches":[{"path":{"type":"PathPrefix","value":"/shop"}}],"backendRefs":[{"name":"web","port":80}]}]}`,
			`"matches":[{"headers":[{"name":"user","type":"Exact","value":"me"}],"path":{"type":"PathPrefix","value":"/shop"}}]`,
			func(ref *v1beta1.TrafficRoutingRef) { ref.Gateway = &v1beta1.GatewayRef{HTTPRouteName: new(name)} },
		},
		"GRPCRoute": {
			`{"parentRefs":[{"name":"edge"}],"rules":[{"matches":[{"method":{"service":"shop.Cart"}}],"backendRefs":[{"name":"web","port":80}]}]}`,
			`"matches":[{"headers":[{"name":"user","type":"Exact","value":"me"}],"method":{"service":"shop.Cart","type":"Exact"}}]`,
			func(ref *v1beta1.TrafficRoutingRef) {
				ref.CustomNetworkRefs = []v1beta1.ObjectRef{{APIVersion: gatewayV1.String(), Kind: "GRPCRoute", Name: name}}
			},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := defaultPlan()
			p.steps = []v1beta1.Step{byHeader, withTraffic(manualStep("50%"), "40%")}
			p.customizeRollout = func(r *v1beta1.Rollout) {
				ref := &r.Spec.Strategy.Canary.TrafficRoutings[0]
				ref.Ingress = nil
				tc.names(ref)
			}
			p.deploy = func(a *app) {
				a.create(a.newDeployment())
				a.create(a.newService())
				a.create(a.newIngress())
				a.create(router(t, gatewayV1.WithKind(kind), tc.spec))
			}
			a := start(t, p)
			releaseThroughGateway(a, gatewayV1.WithKind(kind), tc.narrowed)
		})
	}
}

func releaseThroughGateway(a *app, kind schema.GroupVersionKind, narrowed string) {
	a.t.Helper()
	before, _ := a.readRouter(kind)
	a.setRouteStatus(kind, "True")
	a.release("v2")
	a.eventually("the gateway has not observed the route", a.messageContains("edge has not seen it yet"))
	a.setRouteStatus(kind, "False")
	a.eventually("the rejected route is reported", a.messageContains("edge: Accepted is False: Told: by the test"))
	a.consistently("the release stays at its step", a.isAtStage(1, "StepTrafficRouting"))
	a.setRouteStatus(kind, "True")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkTreeAndPlan(1)
	if spec, _ := a.readRouter(kind); !strings.Contains(spec, narrowed) || strings.Count(spec, `"web-canary"`) != 1 {
		a.t.Errorf("%s is not in %s", narrowed, spec)
	}
	a.promote(1)
	a.eventually("the gateway has not observed the weight", a.messageContains("edge has not seen it yet"))
	a.setRouteStatus(kind, "True")
	a.eventually("step 2 waits", a.waitsAtStep(2))
	if spec, _ := a.readRouter(kind); !strings.Contains(spec, `"name":"web","port":80,"weight":60`) || !strings.Contains(spec, `"name":"web-canary","port":80,"weight":40`) {
		a.t.Errorf("no share of 40 in %s", spec)
	}
	a.promote(2)
	a.eventually("the Rollout is Healthy", a.released("v2"))
	after, annotations := a.readRouter(kind)
	a.checkEqual("the route", before, after)
	a.checkEqual("its annotations", 0, len(annotations))
	a.checkRestored(workloadTypeLabel)
}

// setRouteStatus writes the status of the route as a gateway does.
func (a *app) setRouteStatus(kind schema.GroupVersionKind, accepted string) {
	a.t.Helper()
	a.eventually("the gateway has written its status", func(ctx context.Context) error {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(kind)
		if err := testEnv.client.Get(ctx, a.key(name), o); err != nil {
			return err
		}
		condition := func(kind, status string) any {
			return map[string]any{
				"type": kind, "status": status, "reason": "Told", "message": "by the test",
				"observedGeneration": o.GetGeneration(), "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
			}
		}
		o.Object["status"] = map[string]any{"parents": []any{map[string]any{
			"controllerName": "e2e.example.com/edge", "parentRef": map[string]any{"name": "edge"},
			"conditions": []any{condition("Accepted", accepted), condition("ResolvedRefs", "True")},
		}}}
		return testEnv.client.Status().Update(ctx, o)
	})
}

// uninstallGatewayAPI deletes CRDs of the Gateway API for the tests that follow. weir-controller
// caches what a cluster serves, so it is restarted.
func uninstallGatewayAPI(t *testing.T, plurals []string) {
	t.Helper()
	ctx, cancel := patience.Context(t.Context(), patience.Long)
	defer cancel()
	for _, plural := range plurals {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		crd.SetName(plural + "." + gatewayV1.Group)
		if err := client.IgnoreNotFound(testEnv.client.Delete(ctx, crd)); err != nil {
			t.Error(err)
		}
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			return apierrors.IsNotFound(testEnv.client.Get(ctx, client.ObjectKeyFromObject(crd), crd)), nil
		})
		if err != nil {
			t.Errorf("%s is not gone: %v", crd.GetName(), err)
		}
	}
	for _, step := range []func(string) error{testEnv.cluster.Kill, testEnv.cluster.Start} {
		if err := step(cluster.WeirController); err != nil {
			t.Error(fmt.Errorf("restarting weir-controller: %w", err))
		}
	}
}

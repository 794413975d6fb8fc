// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

const front = "front"

// planWithTrafficRouting is a plan whose traffic is routed by a TrafficRouting.
func planWithTrafficRouting(r *v1alpha1.TrafficRouting) plan {
	p := defaultPlan()
	p.customizeRollout = func(rollout *v1beta1.Rollout) {
		name := r.Name
		rollout.Spec.Strategy.Canary.TrafficRoutings = nil
		rollout.Spec.Strategy.Canary.TrafficRoutingRef = &name
		for i := range rollout.Spec.Strategy.Canary.Steps {
			rollout.Spec.Strategy.Canary.Steps[i].Traffic = nil
		}
	}
	return p
}

func newTrafficRouting(ref v1alpha1.TrafficRoutingRef, strategy v1alpha1.TrafficRoutingStrategy) *v1alpha1.TrafficRouting {
	return &v1alpha1.TrafficRouting{
		ObjectMeta: metav1.ObjectMeta{Name: front},
		Spec:       v1alpha1.TrafficRoutingSpec{ObjectRef: []v1alpha1.TrafficRoutingRef{ref}, Strategy: strategy},
	}
}

// getTrafficRouting reads the TrafficRouting.
func (a *app) getTrafficRouting(ctx context.Context) (*v1alpha1.TrafficRouting, error) {
	r := &v1alpha1.TrafficRouting{}
	return r, testEnv.client.Get(ctx, a.key(front), r)
}

// trafficRoutingPhase returns a check of the phase of the TrafficRouting.
func (a *app) trafficRoutingPhase(phase v1alpha1.Phase) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getTrafficRouting(ctx)
		if err == nil && (r.Status.Phase != phase || r.Status.Message != "TrafficRouting is "+string(phase)) {
			err = fmt.Errorf("the TrafficRouting is %s, %q", r.Status.Phase, r.Status.Message)
		}
		return err
	}
}

// TestTrafficRouting releases with a TrafficRouting in front of the Service. Its weight is edited,
// its route is changed by a user, and its controller is killed. When the Rollout is Healthy, the
// next read of the TrafficRouting must be Healthy, too. Since it kills a process, this test does
// not run in parallel with others.
func TestTrafficRouting(t *testing.T) {
	weight, grace := int32(20), int32(1)
	r := newTrafficRouting(v1alpha1.TrafficRoutingRef{
		Service: name, GracePeriodSeconds: &grace, Ingress: &v1alpha1.IngressRef{Name: name},
	}, v1alpha1.TrafficRoutingStrategy{Weight: &weight})
	a := start(t, planWithTrafficRouting(r))
	a.create(r)
	a.eventually("the TrafficRouting is Healthy", a.trafficRoutingPhase("Healthy"))
	testEnv.admin.kubectl(a, "get", "trafficrouting").mustSucceed("STATUS", "MESSAGE", "Healthy", "TrafficRouting is Healthy")

	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkNow(a.trafficRoutingPhase("Progressing"))
	a.checkNow(a.hasCanaryWeight("20"))

	testEnv.admin.kubectl(a, "patch", "trafficrouting", front, "--type=merge", "-p", `{"spec":{"strategy":{"weight":40}}}`).mustSucceed()
	a.eventually("the edit is routed", a.hasCanaryWeight("40"))
	testEnv.admin.kubectl(a, "annotate", "--overwrite", "ingress", name+"-canary", "nginx.ingress.kubernetes.io/canary-weight=90").mustSucceed()
	a.eventually("the route is restored", a.hasCanaryWeight("40"))
	a.eventually("an event reports it", func(context.Context) error {
		events := testEnv.admin.kubectl(a, "get", "events", "--field-selector=reason=TrafficCorrected", "-o", "name").mustSucceed()
		if events == "" || events == "No resources found" {
			return errors.New("no event")
		}
		return nil
	})

	if err := testEnv.cluster.Kill(cluster.WeirController); err != nil {
		t.Fatal(err)
	}
	if err := testEnv.cluster.Start(cluster.WeirController); err != nil {
		t.Fatal(err)
	}
	a.promote(1)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.checkNow(a.hasCanaryWeight("40"))
	a.promote(2)
	a.eventually("the Rollout is Healthy", a.released("v2"))
	a.checkNow(a.trafficRoutingPhase("Healthy"))
	a.checkRestored(workloadTypeLabel)

	// If the TrafficRouting is deleted during a release, its route is restored first.
	a.release("v3")
	a.eventually("step 1 waits again", a.waitsAtStep(1))
	testEnv.admin.kubectl(a, "delete", "trafficrouting", front, "--timeout=60s").mustSucceed()
	if err := testEnv.client.Get(t.Context(), a.key(name+"-canary"), &networkingv1.Ingress{}); !apierrors.IsNotFound(err) {
		t.Errorf("the canary Ingress is left: %v", err)
	}
	a.abort()
	a.eventually("the release is aborted", a.isAborted)
}

// newIstioObject is an object of Istio with a spec.
func newIstioObject(kind, name, spec string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1alpha3", "kind": kind, "metadata": map[string]any{"name": name},
	}}
	var content map[string]any
	if err := json.Unmarshal([]byte(spec), &content); err != nil {
		panic(err)
	}
	u.Object["spec"] = content
	return u
}

const (
	originalSpec = "rollouts.kruise.io/original-spec-configuration"
	pagesBefore  = `{"gateways":["nginx-gateway"],"hosts":["*"],"http":[{"route":[{"destination":{"host":"web"}}]}]}`
	pagesRouted  = `{"gateways":["nginx-gateway"],"hosts":["*"],"http":[{"match":[{"headers":{"user-agent":{"exact":"pc"}}}],"route":[{"destination":{"host":"web","subset":"canary"}}]},{"route":[{"destination":{"host":"web"}}]}]}`
	ruleBefore   = `{"host":"svc-demo","subsets":[{"labels":{"version":"base"},"name":"echoserver"}],"trafficPolicy":{"loadBalancer":{"simple":"ROUND_ROBIN"}}}`
	ruleRouted   = `{"host":"svc-demo","subsets":[{"labels":{"version":"base"},"name":"echoserver"},{"labels":{"istio.service.tag":"gray"},"name":"canary"}],"trafficPolicy":{"loadBalancer":{"simple":"ROUND_ROBIN"}}}`
)

// checkIstioObject checks the spec of an object of Istio, and the original spec in its annotation.
func (a *app) checkIstioObject(kind, name, spec, original string) {
	a.t.Helper()
	u := newIstioObject(kind, name, "{}")
	if err := testEnv.client.Get(a.t.Context(), a.key(name), u); err != nil {
		a.t.Fatal(err)
	}
	now, err := json.Marshal(u.Object["spec"])
	if err != nil {
		a.t.Fatal(err)
	}
	a.checkEqual("the "+kind, spec, string(now))
	a.checkEqual("its annotation", original, u.GetAnnotations()[originalSpec])
}

// TestCaseTrafficRouting is a case with Istio: a v1alpha1 Rollout references a TrafficRouting with
// its annotation. The TrafficRouting matches a header.
func TestCaseTrafficRouting(t *testing.T) {
	t.Parallel()
	installCRDs(t, "testdata/virtualservices.yaml", "testdata/destinationrules.yaml")
	a := newNamespace(t)
	a.plan = planWithoutTraffic()
	a.plan.replicas = 4
	objects := []client.Object{newIstioObject("VirtualService", "vs-demo", pagesBefore), newIstioObject("DestinationRule", "ds-demo", ruleBefore)}
	for _, o := range objects {
		a.eventually("the kind is served", func(ctx context.Context) error {
			o.SetNamespace(a.namespace)
			return client.IgnoreAlreadyExists(testEnv.client.Create(ctx, o))
		})
	}
	exact := "Exact"
	a.create(newTrafficRouting(v1alpha1.TrafficRoutingRef{
		Service: name,
		CustomNetworkRefs: []v1alpha1.ObjectRef{
			{APIVersion: "networking.istio.io/v1alpha3", Kind: "VirtualService", Name: "vs-demo"},
			{APIVersion: "networking.istio.io/v1alpha3", Kind: "DestinationRule", Name: "ds-demo"},
		},
	}, v1alpha1.TrafficRoutingStrategy{Matches: []v1alpha1.RouteMatch{{
		Headers: []v1alpha1.ValueMatch{{Type: &exact, Name: "user-agent", Value: "pc"}},
	}}}))
	a.create(a.newService())
	a.create(a.newDeployment())
	a.eventually("the Deployment is ready", a.runs(versions{"v1": 4}))
	old := newV1alpha1Rollout(withReplicas(v1alpha1.Step{}, 1))
	old.Annotations = map[string]string{"rollouts.kruise.io/trafficrouting": front}
	old.Spec.Strategy.Canary.TrafficRoutings = nil
	a.rollout = old.Name
	a.create(old)
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("the TrafficRouting is Healthy", a.trafficRoutingPhase("Healthy"))

	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkNow(a.trafficRoutingPhase("Progressing"))
	a.checkIstioObject("VirtualService", "vs-demo", pagesRouted, `{"spec":`+pagesBefore+`}`)
	a.checkIstioObject("DestinationRule", "ds-demo", ruleRouted, `{"spec":`+ruleBefore+`}`)
	a.promote(1)
	a.eventually("the Rollout is Healthy again", a.isHealthy)
	a.checkNow(a.trafficRoutingPhase("Healthy"))
	a.checkIstioObject("VirtualService", "vs-demo", pagesBefore, "")
	a.checkIstioObject("DestinationRule", "ds-demo", ruleBefore, "")
	a.eventually("no objects of the release are left", a.hasNoReleaseObjects)
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestCaseRoutes runs scenarios with routers that are custom resources. They are subtests of one
// test, because it installs the CRDs.
func TestCaseRoutes(t *testing.T) {
	t.Parallel()
	installCRDs(t, gatewayKinds(t, "clients", "httproutes")[0], "testdata/virtualservices.yaml")
	cases := map[string]func(*testing.T){
		"gateway":           caseGateway,
		"Istio":             caseIstio,
		"Istio and Ingress": caseIstioAndIngress,
		"kind not served":   caseRouterKindNotServed,
	}
	for _, name := range selectCases(cases, "gateway") {
		t.Run(name, cases[name])
	}
}

// gatewayKinds returns the CRD files of the Gateway API release that one of Weir's Go modules uses.
// OpenKruise's clients only know v1beta1; Traefik also needs v1.
func gatewayKinds(t *testing.T, module string, plurals ...string) (files []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "-C", "../../hack/"+module, "mod", "download", "-json", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatalf("looking for the Gateway API: %v", err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatal(err)
	}
	for _, plural := range plurals {
		files = append(files, filepath.Join(found.Dir, "config/crd/standard/gateway.networking.k8s.io_"+plural+".yaml"))
	}
	return files
}

// installCRDs creates CRDs, unless another test has created them, and waits until they are served.
func installCRDs(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &crd.Object); err != nil {
			t.Fatal(err)
		}
		unstructured.RemoveNestedField(crd.Object, "status")
		if err := client.IgnoreAlreadyExists(testEnv.client.Create(t.Context(), crd)); err != nil {
			t.Fatal(err)
		}
		a := &app{t: t}
		if err := a.await(crd.GetName()+" is served", func(ctx context.Context) error {
			if err := testEnv.client.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
				return err
			}
			conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
			for _, c := range conditions {
				if m, ok := c.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
					return nil
				}
			}
			return errors.Join(fmt.Errorf("conditions %v", conditions), err)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	httpRoutes      = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1beta1", Kind: "HTTPRoute"}
	virtualServices = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1alpha3", Kind: "VirtualService"}
)

// router is a custom resource named like the application.
func router(t *testing.T, kind schema.GroupVersionKind, spec string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	var parsed map[string]any
	if err := json.Unmarshal([]byte(spec), &parsed); err != nil {
		t.Fatal(err)
	}
	o.Object["spec"] = parsed
	o.SetGroupVersionKind(kind)
	o.SetName(name)
	return o
}

// readRouter returns the spec of a router as JSON, and its annotations.
func (a *app) readRouter(kind schema.GroupVersionKind) (spec string, annotations map[string]string) {
	a.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	if err := testEnv.client.Get(a.t.Context(), a.key(name), o); err != nil {
		a.t.Fatal(err)
	}
	data, err := json.Marshal(o.Object["spec"])
	if err != nil {
		a.t.Fatal(err)
	}
	return string(data), o.GetAnnotations()
}

// backends returns the weights of the only rule of an HTTPRoute by Service.
func (c *kruiseClient) backends() map[string]int64 {
	c.t.Helper()
	spec, _ := c.readRouter(httpRoutes)
	var route struct {
		Rules []struct {
			BackendRefs []struct {
				Name   string
				Weight int64
			}
		}
	}
	if err := json.Unmarshal([]byte(spec), &route); err != nil || len(route.Rules) != 1 {
		c.t.Fatalf("%v in %s", err, spec)
	}
	weights := map[string]int64{}
	for _, ref := range route.Rules[0].BackendRefs {
		weights[ref.Name] = ref.Weight
	}
	return weights
}

// Case 23: five steps with three pods and the weights of an HTTPRoute. A user removes the new
// version from the route in between.
func caseGateway(t *testing.T) {
	t.Parallel()
	s := v1alpha1Scenario(3, weightStep(20), weightStep(40), weightStep(60), weightStep(80), weightStep(90))
	ref := &s.rollout.(*v1alpha1.Rollout).Spec.Strategy.Canary.TrafficRoutings[0]
	ref.Ingress, ref.Gateway = nil, &v1alpha1.GatewayRef{HTTPRouteName: new(name)}
	s.router = router(t, httpRoutes, `{"hostnames":["test.example"],"rules":[{
		"matches":[{"path":{"type":"PathPrefix","value":"/apis/echo"}}],"backendRefs":[{"name":"web","port":80}]}]}`)
	c := startScenario(t, s)
	before, _ := c.readRouter(httpRoutes)
	c.setVersion("v2")
	c.eventually("the Deployment stays paused at the old version", c.isPausedAtOldVersion)
	for i, weight := range []int64{20, 40, 60, 80, 90} {
		c.awaitPausedStep(int32(i + 1))
		c.awaitExtraPods("v2", []int32{1, 2, 2, 3, 3}[i])
		c.checkServicesPinned()
		c.checkEqual("the weights", map[string]int64{name: 100 - weight, extraName: weight}, c.backends())
		if i == 1 {
			c.reapplyRoute(before)
		}
		c.approve()
	}
	c.checkReleaseEnded("v2", "True")
	after, annotations := c.readRouter(httpRoutes)
	c.checkEqual("the route", before, after)
	c.checkEqual("its annotations", 0, len(annotations))
	c.checkEqual("the weights", map[string]int64{name: 1}, c.backends())
}

// reapplyRoute applies the owner's route again. Weir must restore the weight.
func (c *kruiseClient) reapplyRoute(before string) {
	c.t.Helper()
	c.patchRouter(httpRoutes, name, `{"spec":`+before+`}`)
	c.checkAfter(3*time.Second, "the weight is restored", func(context.Context) error {
		if w := c.backends(); w[extraName] != 40 {
			return fmt.Errorf("weights %v", w)
		}
		return nil
	})
}

const (
	meshSpec    = `{"gateways":["nginx-gateway"],"hosts":["*"],"http":[{"route":[{"destination":{"host":"web"}}]}]}`
	meshMatches = `{"gateways":["nginx-gateway"],"hosts":["*"],"http":[` +
		`{"match":[{"uri":{"prefix":"/pc"}}],"route":[{"destination":{"host":"web-canary"}}]},` +
		`{"match":[{"queryParams":{"user-agent":{"exact":"pc"}}}],"route":[{"destination":{"host":"web-canary"}}]},` +
		`{"match":[{"headers":{"user-agent":{"exact":"pc"}}}],"route":[{"destination":{"host":"web-canary"}}]},` +
		`{"route":[{"destination":{"host":"web"}}]}]}`
	meshHalf = `{"gateways":["nginx-gateway"],"hosts":["*"],"http":[` +
		`{"route":[{"destination":{"host":"web"},"weight":50},{"destination":{"host":"web-canary"},"weight":50}]}]}`
	kept = "rollouts.kruise.io/original-spec-configuration"
)

func istioScenario(t *testing.T) scenario {
	chosen := manualStep("1")
	chosen.Matches = []v1beta1.RouteMatch{
		{Headers: []v1beta1.ValueMatch{{Type: new("Exact"), Name: "user-agent", Value: "pc"}}},
		{QueryParams: []v1beta1.ValueMatch{{Type: new("Exact"), Name: "user-agent", Value: "pc"}}},
		{Path: &v1beta1.PathMatch{Value: new("/pc")}},
	}
	release := newRelease(chosen, withTraffic(manualStep("50%"), "50%"))
	release.TrafficRoutings[0].Ingress = nil
	release.TrafficRoutings[0].CustomNetworkRefs = []v1beta1.ObjectRef{
		{APIVersion: virtualServices.GroupVersion().String(), Kind: virtualServices.Kind, Name: name},
	}
	return scenario{
		replicas: 4, routed: true, router: router(t, virtualServices, meshSpec),
		rollout: newRollout(v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{Release: release, EnableExtraWorkloadForCanary: new(true)}}),
	}
}

// releaseThroughIstio goes through both steps until the end.
func (c *kruiseClient) releaseThroughIstio(first, second func()) {
	c.t.Helper()
	c.setVersion("v2")
	c.awaitPausedStep(1)
	c.checkTreeAndPlan(1)
	c.awaitExtraPods("v2", 1)
	c.checkVirtualService(meshMatches)
	first()
	c.approve()
	c.awaitPausedStep(2)
	c.awaitExtraPods("v2", 2)
	c.checkVirtualService(meshHalf)
	second()
	c.approve()
	c.checkReleaseEnded("v2", "True")
	spec, annotations := c.readRouter(virtualServices)
	c.checkEqual("the VirtualService", meshSpec, spec)
	c.checkEqual("its annotations", 0, len(annotations))
}

func (c *kruiseClient) checkVirtualService(want string) {
	c.t.Helper()
	spec, annotations := c.readRouter(virtualServices)
	c.checkEqual("the VirtualService", want, spec)
	c.checkEqual("the saved spec", `{"spec":`+meshSpec+`}`, annotations[kept])
}

// Case 24: matches and then a weight in a VirtualService.
func caseIstio(t *testing.T) {
	t.Parallel()
	c := startScenario(t, istioScenario(t))
	c.releaseThroughIstio(func() {}, func() {})
}

// Case 72: the same with an additional Ingress, which supports the header match only.
func caseIstioAndIngress(t *testing.T) {
	t.Parallel()
	s := istioScenario(t)
	s.rollout.(*v1beta1.Rollout).Spec.Strategy.Canary.TrafficRoutings[0].Ingress = &v1beta1.IngressRef{Name: name}
	c := startScenario(t, s)
	c.releaseThroughIstio(func() {
		c.checkEqual("the rules", map[string]string{
			"canary": "true", "canary-by-header": "user-agent", "canary-by-header-value": "pc",
		}, c.canaryRules())
	}, func() {
		c.checkEqual("the rules", map[string]string{"canary": "true", "canary-weight": "50"}, c.canaryRules())
	})
}

// caseRouterKindNotServed references a router of a kind that the cluster does not serve. No pod is
// replaced, and the Rollout reports the reason.
func caseRouterKindNotServed(t *testing.T) {
	t.Parallel()
	s := istioScenario(t)
	s.router = nil
	ref := &s.rollout.(*v1beta1.Rollout).Spec.Strategy.Canary.TrafficRoutings[0].CustomNetworkRefs[0]
	*ref = v1beta1.ObjectRef{APIVersion: "gateway.networking.k8s.io/v1", Kind: "GRPCRoute", Name: name}
	c := startScenario(t, s)
	c.setVersion("v2")
	c.eventually("the reason is reported", c.messageContains("the cluster does not serve GRPCRoute.gateway.networking.k8s.io"))
	c.guard.atMost("v2", 0)
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DeploymentList"})
	if err := testEnv.client.List(t.Context(), &list, client.InNamespace(c.namespace)); err != nil || len(list.Items) != 1 {
		t.Errorf("%d Deployments, %v", len(list.Items), err)
	}
}

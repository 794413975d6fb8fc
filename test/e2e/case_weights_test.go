// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestCaseWeights runs scenarios with routers that only support weights.
func TestCaseWeights(t *testing.T) {
	t.Parallel()
	installCRDs(t, "testdata/traefikservices.yaml")
	cases := map[string]func(*testing.T){"traefik": caseTraefik, "alb": caseALB}
	for _, name := range selectCases(cases, "traefik") {
		t.Run(name, cases[name])
	}
}

var (
	traefikServices = schema.GroupVersionKind{Group: "traefik.io", Version: "v1alpha1", Kind: "TraefikService"}
	ingresses       = networkingv1.SchemeGroupVersion.WithKind("Ingress")
)

// stepForUser is a step that routes the requests of one user.
func stepForUser() v1beta1.Step {
	s := manualStep("100%")
	s.Matches = []v1beta1.RouteMatch{{Headers: []v1beta1.ValueMatch{{Name: "user", Value: "me"}}}}
	return s
}

func weightScenario(router client.Object, to func(*v1beta1.TrafficRoutingRef), steps ...v1beta1.Step) scenario {
	release := newRelease(steps...)
	release.TrafficRoutings[0].Ingress = nil
	to(&release.TrafficRoutings[0])
	return scenario{
		replicas: 4, routed: true, router: router,
		rollout: newRollout(v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{Release: release}}),
	}
}

// patchRouter changes a router as its owner does.
func (c *kruiseClient) patchRouter(kind schema.GroupVersionKind, of, body string) {
	c.t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(c.namespace)
	o.SetName(of)
	if err := testEnv.client.Patch(c.t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(body))); err != nil {
		c.t.Fatal(err)
	}
}

// caseTraefik routes by a TraefikService, whose owner applies it again during the release. At 100 %
// the stable Service is not listed.
func caseTraefik(t *testing.T) {
	t.Parallel()
	const (
		alone  = `{"weighted":{"services":[{"name":"web","port":80}]}}`
		shared = `{"weighted":{"services":[{"kind":"Service","name":"web","port":80,"weight":3},{"name":"ads","port":80}]}}`
	)
	c := startScenario(t, weightScenario(router(t, traefikServices, alone), func(ref *v1beta1.TrafficRoutingRef) {
		ref.CustomNetworkRefs = []v1beta1.ObjectRef{{APIVersion: traefikServices.GroupVersion().String(), Kind: traefikServices.Kind, Name: name}}
	}, withTraffic(manualStep("25%"), "25%"), withTraffic(manualStep("50%"), "100%")))
	says := func(want string) func(context.Context) error {
		return func(context.Context) error {
			if spec, _ := c.readRouter(traefikServices); spec != want {
				return fmt.Errorf("the router is %s, want %s", spec, want)
			}
			return nil
		}
	}
	c.setVersion("v2")
	c.awaitPausedStep(1)
	c.checkServicesPinned()
	c.checkTreeAndPlan(1)
	c.checkNow(says(`{"weighted":{"services":[{"name":"web","port":80,"weight":75},{"name":"web-canary","port":80,"weight":25}]}}`))
	c.patchRouter(traefikServices, name, `{"spec":`+shared+`}`)
	c.eventually("the weight is restored", says(`{"weighted":{"services":[`+
		`{"kind":"Service","name":"web","port":80,"weight":225},{"kind":"Service","name":"web-canary","port":80,"weight":75},`+
		`{"name":"ads","port":80,"weight":100}]}}`))
	c.approve()
	c.awaitPausedStep(2)
	c.checkNow(says(`{"weighted":{"services":[{"kind":"Service","name":"web-canary","port":80,"weight":300},{"name":"ads","port":80,"weight":100}]}}`))
	c.approve()
	c.checkReleaseEnded("v2", "True")
	spec, annotations := c.readRouter(traefikServices)
	c.checkEqual("the TraefikService", shared, spec)
	c.checkEqual("its annotations", 0, len(annotations))
}

// caseALB routes by an action of an AWS ALB. The next step has matches, which an ALB does not
// support, so the step does not begin and the Rollout reports the reason. Then the earlier version
// is set again.
func caseALB(t *testing.T) {
	t.Parallel()
	const (
		key    = "alb.ingress.kubernetes.io/actions.front"
		action = `{"type":"forward","forwardConfig":{"targetGroups":[{"serviceName":"web","servicePort":80}]}}`
		share  = `{"forwardConfig":{"targetGroups":[{"serviceName":"web","servicePort":80,"weight":75},` +
			`{"serviceName":"web-canary","servicePort":80,"weight":25}]},"type":"forward"}`
	)
	front := (&app{}).newIngress()
	front.Name, front.Annotations = "alb", map[string]string{key: action}
	front.Spec.IngressClassName = new("alb")
	*front.Spec.Rules[0].HTTP.Paths[0].Backend.Service = networkingv1.IngressServiceBackend{
		Name: "front", Port: networkingv1.ServiceBackendPort{Name: "use-annotation"},
	}
	c := startScenario(t, weightScenario(front, func(ref *v1beta1.TrafficRoutingRef) {
		ref.Ingress = &v1beta1.IngressRef{Name: front.Name, ClassType: new("aws-alb")}
	}, withTraffic(manualStep("25%"), "25%"), stepForUser()))
	says := func(want string) func(context.Context) error {
		return func(ctx context.Context) error {
			o := &networkingv1.Ingress{}
			if err := testEnv.client.Get(ctx, c.key(front.Name), o); err != nil {
				return err
			}
			if got := o.Annotations[key]; got != want {
				return fmt.Errorf("the router is %s, want %s", got, want)
			}
			return nil
		}
	}
	c.setVersion("v2")
	c.awaitPausedStep(1)
	c.checkServicesPinned()
	c.checkNow(says(share))
	c.patchRouter(ingresses, front.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, action))
	c.eventually("the weight is restored", says(share))
	c.approve()
	c.eventually("the reason is reported", c.messageContains("matches: an ALB of AWS sends shares only"))
	c.checkNow(says(share))
	c.guard.atMost("v2", 1)
	c.setVersion("v1")
	c.checkReleaseEnded("v1", "False")
	c.checkNow(says(action))
	o := &networkingv1.Ingress{}
	if err := testEnv.client.Get(t.Context(), c.key(front.Name), o); err != nil {
		t.Fatal(err)
	}
	c.checkEqual("its annotations", front.Annotations, o.Annotations)
}

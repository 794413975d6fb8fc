// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/patience"
)

// plan describes an application and its release.
type plan struct {
	replicas           int32
	surge, unavailable int32
	steps              []v1beta1.Step
	// withTraffic creates a Service and an Ingress whose traffic the Rollout routes, with a grace
	// period of grace seconds.
	withTraffic bool
	grace       int32
	// annotations are set on the pods.
	annotations map[string]string
	// customizeDeployment changes the Deployment before it is created.
	customizeDeployment func(*appsv1.Deployment)
	// customizeService changes the Service before it is created.
	customizeService func(*corev1.Service)
	// deploy creates all objects except the Rollout, in place of the default.
	deploy func(*app)
	// customizeRollout changes the Rollout before it is created.
	customizeRollout func(*v1beta1.Rollout)
}

// manualStep is a step that waits for approval.
func manualStep(replicas string) v1beta1.Step {
	size := intstr.Parse(replicas)
	return v1beta1.Step{Replicas: &size}
}

// timedStep is a step that passes after some seconds.
func timedStep(replicas string, seconds int32) v1beta1.Step {
	s := manualStep(replicas)
	s.Pause = &v1beta1.Pause{Duration: &seconds}
	return s
}

// withTraffic adds a traffic weight to a step.
func withTraffic(s v1beta1.Step, traffic string) v1beta1.Step {
	s.Traffic = &traffic
	return s
}

// defaultPlan is a plan with 6 pods, maxUnavailable 1 and steps of 2, 3 and 6 pods, with traffic.
func defaultPlan() plan {
	return plan{
		replicas: 6, surge: 2, unavailable: 1, withTraffic: true, grace: 1,
		steps: []v1beta1.Step{withTraffic(manualStep("2"), "20%"), withTraffic(manualStep("50%"), "50%"), withTraffic(manualStep("100%"), "100%")},
	}
}

// planWithoutTraffic is the default plan without traffic routing.
func planWithoutTraffic() plan {
	p := defaultPlan()
	p.withTraffic = false
	p.steps = []v1beta1.Step{manualStep("2"), manualStep("50%"), manualStep("100%")}
	return p
}

// app is an application with a Rollout in a namespace of its own. All its objects are named web.
// The tag of its image is its version.
type app struct {
	t         *testing.T
	plan      plan
	namespace string
	rollout   string
	guard     *availabilityGuard
	before    originalObjects
	once      sync.Once
}

const name = "web"

var (
	count                 atomic.Int32
	invalidNameCharacters = regexp.MustCompile(`[^a-z0-9]+`)
)

// newNamespace creates a namespace without any application.
func newNamespace(t *testing.T) *app {
	t.Helper()
	id := invalidNameCharacters.ReplaceAllString(strings.ToLower(t.Name()), "-")
	return newNamedNamespace(t, fmt.Sprintf("%.50s-%d", id, count.Add(1)))
}

// newNamedNamespace creates a namespace of this name without any application.
func newNamedNamespace(t *testing.T, namespace string) *app {
	t.Helper()
	a := &app{t: t, namespace: namespace, rollout: name}
	if err := testEnv.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.cleanUp)
	return a
}

// start creates an application of version v1 and waits until all its pods are ready.
func start(t *testing.T, p plan) *app {
	t.Helper()
	return newNamespace(t).start(p)
}

func (a *app) start(p plan) *app {
	a.t.Helper()
	a.plan = p
	switch {
	case p.deploy != nil:
		p.deploy(a)
	default:
		a.create(a.newDeployment())
		if p.withTraffic {
			a.create(a.newService())
			a.create(a.newIngress())
		}
	}
	a.eventually("the Deployment is ready", a.runs(versions{"v1": p.replicas}))
	a.before = a.readOriginals()
	a.create(a.newRollout())
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.guard = watchPods(a)
	a.guard.atLeast(p.replicas - p.unavailable)
	return a
}

// cleanUp deletes the application. If the test failed, it first logs the state.
func (a *app) cleanUp() {
	ctx, cancel := patience.Context(context.Background(), patience.Long)
	defer cancel()
	if a.guard != nil {
		a.guard.stop(a.t)
	}
	if a.t.Failed() {
		a.logState(ctx)
		return
	}
	err := testEnv.client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}})
	if err := client.IgnoreNotFound(err); err != nil {
		a.t.Error(err)
	}
}

func (a *app) create(o client.Object) {
	a.t.Helper()
	o.SetNamespace(a.namespace)
	if err := testEnv.client.Create(a.t.Context(), o); err != nil {
		a.t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
	}
}

func (a *app) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: a.namespace, Name: name}
}

// path is the API path of the Rollout.
func (a *app) path() string {
	return "/apis/rollouts.kruise.io/v1beta1/namespaces/" + a.namespace + "/rollouts/" + a.rollout
}

// eventually waits until the condition returns nil.
func (a *app) eventually(what string, ask func(context.Context) error) {
	a.t.Helper()
	if err := a.await(what, ask); err != nil {
		a.t.Fatal(err)
	}
}

func (a *app) await(what string, ask func(context.Context) error) error {
	return patience.Until(a.t.Context(), what, ask)
}

// eventually waits for a condition that does not belong to one application.
func (w *environment) eventually(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	if err := patience.Until(t.Context(), what, ask); err != nil {
		t.Fatal(err)
	}
}

// consistently checks that a condition remains true for a while. That something does not happen can
// only be observed over time.
func (a *app) consistently(what string, ask func(context.Context) error) {
	a.t.Helper()
	err := wait.PollUntilContextTimeout(a.t.Context(), 50*time.Millisecond, 2*time.Second, true, func(context.Context) (bool, error) {
		return false, ask(a.t.Context())
	})
	if !wait.Interrupted(err) {
		a.t.Fatalf("%s: %v", what, err)
	}
}

// checkNow fails the test if the condition returns an error now.
func (a *app) checkNow(ask func(context.Context) error) {
	a.t.Helper()
	if err := ask(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
}

func (a *app) labels() map[string]string { return map[string]string{"app": name} }

func (a *app) newDeployment() *appsv1.Deployment {
	surge, unavailable := intstr.FromInt32(a.plan.surge), intstr.FromInt32(a.plan.unavailable)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: a.labels()},
		Spec: appsv1.DeploymentSpec{
			Replicas: &a.plan.replicas,
			Selector: &metav1.LabelSelector{MatchLabels: a.labels()},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: a.labels(), Annotations: a.plan.annotations},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: image("v1")}}},
			},
		},
	}
	if a.plan.customizeDeployment != nil {
		a.plan.customizeDeployment(d)
	}
	return d
}

func image(version string) string { return "example.com/web:" + version }

func (a *app) newService() *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: a.labels(),
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	if a.plan.customizeService != nil {
		a.plan.customizeService(s)
	}
	return s
}

func (a *app) newIngress() *networkingv1.Ingress {
	class, path := "nginx", networkingv1.PathTypePrefix
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.IngressSpec{
			IngressClassName: &class,
			Rules: []networkingv1.IngressRule{{IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &path, Backend: networkingv1.IngressBackend{
					Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 80}},
				}}},
			}}}},
		},
	}
}

func (a *app) newRollout() *v1beta1.Rollout {
	r := &v1beta1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Name: a.rollout},
		Spec: v1beta1.RolloutSpec{
			WorkloadRef: v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			Strategy:    v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{Release: v1beta1.Release{Steps: a.plan.steps}}},
		},
	}
	if a.plan.withTraffic {
		r.Spec.Strategy.Canary.TrafficRoutings = []v1beta1.TrafficRoutingRef{{
			Service: name, GracePeriodSeconds: &a.plan.grace, Ingress: &v1beta1.IngressRef{Name: name},
		}}
	}
	if a.plan.customizeRollout != nil {
		a.plan.customizeRollout(r)
	}
	return r
}

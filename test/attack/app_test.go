// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/patience"
)

const (
	name   = "web"
	system = "weir-system"
)

// The kinds of workloads.
const (
	deployments  = "Deployment"
	statefulSets = "StatefulSet"
	daemonSets   = "DaemonSet"
)

// resources are their resource names in API paths.
var resources = map[string]string{
	deployments: "deployments", statefulSets: "statefulsets", daemonSets: "daemonsets",
	cloneSets: "clonesets", advancedSets: "statefulsets", advancedDaemons: "daemonsets",
}

// state is the state of an application at the time of the attack.
type state int

const (
	idle state = iota
	// atStep1 is a release of v2 that is paused at its first step.
	atStep1
	// aborted is the same release after an abort.
	aborted
	// released is an application whose release of v2 is complete.
	released
	// withoutRollout is an application with v1 that no Rollout references yet.
	withoutRollout
)

// scenario describes the objects that exist before an attack.
type scenario struct {
	// kind is the kind of the workload; empty means Deployment.
	kind string
	at   state
	// withTraffic creates a Service and an Ingress whose traffic the Rollout routes.
	withTraffic bool
	// canary releases with an extra Deployment.
	canary bool
	// blueGreen releases in the blue-green style.
	blueGreen bool
	// customizeRollout changes the Rollout before it is created.
	customizeRollout func(*v1beta1.Rollout)
}

// app is an application with three pods and its Rollout in a namespace of its own. All its objects
// are named web. The tag of its image is its version.
type app struct {
	t         *testing.T
	scene     scenario
	namespace string
	name      string
	answers   []answer
	before    facts
	// podsBefore are the pods that ran before the attack.
	podsBefore []string
	monitor    *monitor
	// watches are the watches that weir-controller had started before the attack.
	watches map[string]int
	// scriptOutput is the text that scripts have returned.
	scriptOutput string
}

var count atomic.Int32

// newNamespace creates a namespace without any application.
func newNamespace(t *testing.T) *app {
	t.Helper()
	a := &app{t: t, namespace: "attack-" + strconv.Itoa(int(count.Add(1))), name: name, scene: scenario{kind: deployments}}
	a.makeNamespace(a.namespace)
	return a
}

func (a *app) makeNamespace(name string) {
	a.t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := testEnv.client.Create(a.t.Context(), n); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		if err := testEnv.client.Delete(context.Background(), n); err != nil {
			a.t.Error(err)
		}
	})
}

// otherNamespace is a namespace of another user.
func (a *app) otherNamespace() string {
	a.t.Helper()
	beside := a.namespace + "-beside"
	n := &corev1.Namespace{}
	if testEnv.client.Get(a.t.Context(), client.ObjectKey{Name: beside}, n) != nil {
		a.makeNamespace(beside)
	}
	return beside
}

// start brings an application into the state of the scenario.
func start(t *testing.T, s scenario) *app {
	t.Helper()
	a := newNamespace(t)
	if s.kind == "" {
		s.kind = deployments
	}
	a.scene = s
	a.monitor = watchPods(a)
	t.Cleanup(a.logState)
	a.create(a.workload("v1"))
	if s.withTraffic {
		a.create(a.service())
		a.create(a.ingress())
	}
	a.eventually("v1 serves", a.runs(versions{"v1": 3}))
	if s.at == withoutRollout {
		return a
	}
	a.create(a.rollout())
	a.eventually("the Rollout is Healthy", a.isHealthy)
	if s.at == idle {
		return a
	}
	a.setVersion("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	switch s.at {
	case aborted:
		a.verb(testEnv.admin, "abort", "")
		a.eventually("the release is aborted", a.isAborted)
		a.eventually("all pods run v1 again", a.runs(versions{"v1": 3}))
	case released:
		a.verb(testEnv.admin, "promote", `{"full":true}`)
		a.eventually("the Rollout is Healthy", a.isHealthy)
		a.eventually("v2 serves", a.runs(versions{"v2": 3}))
	}
	return a
}

func (a *app) create(o client.Object) {
	a.t.Helper()
	if o.GetNamespace() == "" {
		o.SetNamespace(a.namespace)
	}
	if err := testEnv.client.Create(a.t.Context(), o); err != nil {
		a.t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
	}
}

// eventually waits until the condition returns nil.
func (a *app) eventually(what string, ask func(context.Context) error) {
	a.t.Helper()
	if err := patience.Until(a.t.Context(), what, ask); err != nil {
		a.t.Fatal(err)
	}
}

func image(version string) string { return "example.com/web:" + version }

func (a *app) labels() map[string]string { return map[string]string{"app": a.name} }

func (a *app) template(version string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: a.labels()},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []corev1.Container{{Name: name, Image: image(version)}},
		},
	}
}

func (a *app) workload(version string) client.Object {
	meta := metav1.ObjectMeta{Name: a.name, Labels: a.labels()}
	selector := &metav1.LabelSelector{MatchLabels: a.labels()}
	switch a.scene.kind {
	case statefulSets:
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(3)), Selector: selector, Template: a.template(version),
		}}
	case daemonSets: // three pods, because there are three nodes
		return &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: a.template(version)}}
	}
	if _, custom := customKinds[a.scene.kind]; custom {
		return a.customWorkload(version)
	}
	one := intstr.FromInt32(1)
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(3)), Selector: selector, Template: a.template(version),
		Strategy: appsv1.DeploymentStrategy{
			Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &one, MaxUnavailable: &one},
		},
	}}
}

func (a *app) service() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: a.name}, Spec: corev1.ServiceSpec{
		Selector: a.labels(), Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
}

func (a *app) ingress(services ...string) *networkingv1.Ingress {
	if len(services) == 0 {
		services = []string{a.name}
	}
	var paths []networkingv1.HTTPIngressPath
	for _, s := range services {
		paths = append(paths, networkingv1.HTTPIngressPath{
			Path: "/" + s, PathType: new(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: s, Port: networkingv1.ServiceBackendPort{Number: 80}},
			},
		})
	}
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IngressSpec{
		IngressClassName: new("nginx"),
		Rules:            []networkingv1.IngressRule{{IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: paths}}}},
	}}
}

// rollout is a Rollout that releases one pod, then two, then all.
func (a *app) rollout() *v1beta1.Rollout {
	c := &v1beta1.CanaryStrategy{}
	for i, replicas := range []string{"1", "2", "100%"} {
		step := v1beta1.Step{Replicas: new(intstr.Parse(replicas))}
		if a.scene.withTraffic {
			step.Traffic = new(fmt.Sprintf("%d%%", 20+40*i))
		}
		c.Steps = append(c.Steps, step)
	}
	if a.scene.canary {
		c.EnableExtraWorkloadForCanary = new(true)
		c.Steps = c.Steps[:2]
	}
	if a.scene.withTraffic {
		c.TrafficRoutings = []v1beta1.TrafficRoutingRef{{Service: a.name, GracePeriodSeconds: new(int32(1)), Ingress: &v1beta1.IngressRef{Name: name}}}
	}
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Name: a.name}, Spec: v1beta1.RolloutSpec{
		WorkloadRef: a.workloadRef(),
		Strategy:    v1beta1.Strategy{Canary: c},
	}}
	if a.scene.blueGreen {
		r.Spec.Strategy = v1beta1.Strategy{BlueGreen: &v1beta1.BlueGreenStrategy{Release: c.Release}}
	}
	if a.scene.customizeRollout != nil {
		a.scene.customizeRollout(r)
	}
	return r
}

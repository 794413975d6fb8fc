// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/store"
	"github.com/weir-rollouts/weir/test/cluster"
)

// system is a system that releases applications: Weir, Argo Rollouts, or Kubernetes alone.
type system interface {
	// start starts a control plane and the system on it.
	start(ctx context.Context, p *plane) error
	// processes are the names of the system's own processes.
	processes() []string
	// application returns the objects of one application.
	application(namespace, name string, replicas int) []client.Object
	// newWorkload returns an empty object of the kind whose template is changed.
	newWorkload() client.Object
	// newRelease returns an empty object of the kind whose status shows a release, and an
	// empty list of this kind.
	newRelease() (client.Object, client.ObjectList)
	// state reads the status of such an object.
	state(o client.Object) state
	// approve approves the step at which a release waits.
	approve(ctx context.Context, b *bench, name string, step int32) error
}

// state is the state of one release.
type state struct {
	step    int32
	waits   bool // for the approval of the step
	healthy bool
}

const (
	// appLabel is the label of the objects and pods of an application. Its value is the name.
	appLabel = "app"
	// imageName and a number make the image of a version.
	imageName = "registry.example/app:"
)

func appName(i int) string { return fmt.Sprintf("app-%d", i) }

func versionImage(number int) string { return fmt.Sprintf("%s%d", imageName, number) }

func newDeployment(namespace, name string, replicas int) *appsv1.Deployment {
	labels := map[string]string{appLabel: name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: versionImage(0)}}},
			},
		},
	}
}

// weir is Weir, with its controllers in the process of weir-apiserver.
type weir struct{ options }

func (w weir) start(ctx context.Context, p *plane) error {
	options := cluster.Options{Weir: true, WeirApiserverArgs: w.profilingArgs()}
	if w.heap != "" {
		options.WeirEnv = []string{"GOMEMLIMIT=" + w.heap}
	}
	if err := p.start(ctx, w.podReady, options); err != nil {
		return err
	}
	p.weir = rest.CopyConfig(p.config)
	p.weir.Host = "https://" + p.cluster.Address(cluster.WeirAPIServer)
	p.weir.TLSClientConfig.CAFile, p.weir.TLSClientConfig.CAData, p.weir.TLSClientConfig.Insecure = "", nil, true
	address, err := store.EndpointIn(p.cluster.WeirData())
	if err != nil {
		return err
	}
	p.etcds["weir"] = address
	return p.measureProcesses(w.processes()...)
}

func (w weir) profilingArgs() []string {
	if w.profiles == "" && w.measure != "scale" {
		return nil
	}
	return []string{"--profiling"}
}

func (weir) processes() []string { return []string{cluster.WeirAPIServer} }

func (weir) newWorkload() client.Object { return &appsv1.Deployment{} }

func (weir) newRelease() (client.Object, client.ObjectList) {
	return &v1beta1.Rollout{}, &v1beta1.RolloutList{}
}

func (weir) state(o client.Object) state {
	r, ok := o.(*v1beta1.Rollout)
	if !ok {
		return state{}
	}
	s := r.Status
	return state{
		step:    s.CurrentStepIndex,
		waits:   s.Phase == v1beta1.PhaseProgressing && s.CurrentStepState == v1beta1.StepPaused,
		healthy: s.Phase == v1beta1.PhaseHealthy,
	}
}

func (weir) approve(ctx context.Context, b *bench, name string, step int32) error {
	code, body, err := b.sendVerb(ctx, releasedNamespace, name, "promote", fmt.Sprintf(`{"expect":{"step":%d}}`, step))
	if err == nil && code != http.StatusCreated {
		err = fmt.Errorf("%d: %s", code, body)
	}
	return err
}

func (w weir) application(namespace, name string, replicas int) []client.Object {
	var release v1beta1.Release
	for size := range strings.SplitSeq(w.steps, ",") {
		step := v1beta1.Step{Replicas: new(intstr.Parse(size))}
		if w.traffic {
			step.Traffic = &size
		}
		release.Steps = append(release.Steps, step)
	}
	var objects []client.Object
	if w.traffic {
		release.TrafficRoutings = []v1beta1.TrafficRoutingRef{{Service: name, Ingress: &v1beta1.IngressRef{Name: name}, GracePeriodSeconds: new(int32(1))}}
		objects = serviceAndIngress(namespace, name)
	}
	return append(objects, newDeployment(namespace, name, replicas), &v1beta1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1beta1.RolloutSpec{
			WorkloadRef: v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			Strategy:    v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{Release: release}},
		},
	})
}

func serviceAndIngress(namespace, name string) []client.Object {
	backend := networkingv1.IngressBackend{
		Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 80}},
	}
	path := networkingv1.HTTPIngressPath{Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: backend}
	rule := networkingv1.IngressRule{Host: name + ".example", IngressRuleValue: networkingv1.IngressRuleValue{
		HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}},
	}}
	return []client.Object{
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: corev1.ServiceSpec{
				Selector: map[string]string{appLabel: name},
				Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
			},
		},
		&networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       networkingv1.IngressSpec{IngressClassName: new("nginx"), Rules: []networkingv1.IngressRule{rule}},
		},
	}
}

// unheld is Kubernetes alone: Deployments that no system holds. Their costs are the part of a
// release that no system can save.
type unheld struct{ options }

func (u unheld) start(ctx context.Context, p *plane) error {
	return p.start(ctx, u.podReady, cluster.Options{})
}

func (unheld) processes() []string { return nil }

func (unheld) application(namespace, name string, replicas int) []client.Object {
	return []client.Object{newDeployment(namespace, name, replicas)}
}

func (unheld) newWorkload() client.Object { return &appsv1.Deployment{} }

func (unheld) newRelease() (client.Object, client.ObjectList) {
	return &appsv1.Deployment{}, &appsv1.DeploymentList{}
}

// state is healthy when all pods of the Deployment run its template.
func (unheld) state(o client.Object) state {
	d, ok := o.(*appsv1.Deployment)
	return state{healthy: ok && isComplete(d)}
}

func (unheld) approve(_ context.Context, _ *bench, name string, _ int32) error {
	return fmt.Errorf("%s has no steps", name)
}

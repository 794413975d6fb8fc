// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

const (
	// of names what belongs to one application; image is its version.
	of    = "app"
	image = "registry.example/app:"
)

// styles say how a plan is released.
var styles = map[string]func(v1beta1.Release) v1beta1.Strategy{
	"partition": func(r v1beta1.Release) v1beta1.Strategy {
		return v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{Release: r}}
	},
	"canary": func(r v1beta1.Release) v1beta1.Strategy {
		return v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{Release: r, EnableExtraWorkloadForCanary: new(true)}}
	},
	"bluegreen": func(r v1beta1.Release) v1beta1.Strategy {
		return v1beta1.Strategy{BlueGreen: &v1beta1.BlueGreenStrategy{Release: r}}
	},
}

func deployment(namespace, name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{of: name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image + "0"}}},
			},
		},
	}
}

func (o options) rollout(namespace, name string) *v1beta1.Rollout {
	var release v1beta1.Release
	for size := range strings.SplitSeq(o.steps, ",") {
		replicas := intstr.Parse(size)
		s := v1beta1.Step{Replicas: &replicas}
		if o.traffic {
			s.Traffic = &size
		}
		release.Steps = append(release.Steps, s)
	}
	if o.traffic {
		release.TrafficRoutings = []v1beta1.TrafficRoutingRef{{Service: name, Ingress: &v1beta1.IngressRef{Name: name}, GracePeriodSeconds: new(int32(1))}}
	}
	return &v1beta1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1beta1.RolloutSpec{
			WorkloadRef: v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			Strategy:    styles[o.style](release),
		},
	}
}

// application is all that one consists of.
func (o options) application(namespace, name string, replicas int) []client.Object {
	objects := []client.Object{deployment(namespace, name, int32(replicas)), o.rollout(namespace, name)}
	if !o.traffic {
		return objects
	}
	ports := []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}
	class, path := "nginx", networkingv1.PathTypePrefix
	return append([]client.Object{
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{of: name}, Ports: ports},
		},
		&networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: networkingv1.IngressSpec{IngressClassName: &class, Rules: []networkingv1.IngressRule{{
				Host: name + ".example", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
					Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &path, Backend: networkingv1.IngressBackend{
						Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 80}},
					}}},
				}},
			}}},
		},
	}, objects...)
}

func appName(i int) string { return fmt.Sprintf("app-%d", i) }

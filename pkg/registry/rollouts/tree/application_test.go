// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

func untyped(t *testing.T, o apiruntime.Object) apiruntime.Object {
	t.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := apiruntime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: m}
	u.SetGroupVersionKind(kinds[0])
	return u
}

func about(namespace, name string, labels map[string]string, owner *metav1.OwnerReference) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), Labels: labels}
	if owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return m
}

func ownedBy(kind, namespace, name string) *metav1.OwnerReference {
	return &metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(namespace + "-" + name), Controller: new(true)}
}

var (
	app  = map[string]string{"app": "web"}
	hash = map[string]string{"app": "web", "pod-template-hash": "v1"}
)

func podOf(namespace string, n int, ready bool) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: about(namespace, fmt.Sprintf("web-v1-%03d", n), hash, ownedBy("ReplicaSet", namespace, "web-v1")),
		Spec:       corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Name: "app", Image: "web:v1", Env: []corev1.EnvVar{{Name: "SECRET"}}}}},
	}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	if !ready {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "app", RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		}}
	}
	return p
}

// application contains a Deployment and its Rollout, both named web.
func (w *world) application(t *testing.T, namespace string, pods int) {
	t.Helper()
	size := new(int32(pods))
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "web:v1"}}}}
	hashed := *template.DeepCopy()
	hashed.Labels = hash
	path := networkingv1.HTTPIngressPath{Path: "/", PathType: new(networkingv1.PathTypePrefix)}
	path.Backend.Service = &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}
	objects := []apiruntime.Object{
		&appsv1.Deployment{
			ObjectMeta: about(namespace, "web", app, nil),
			Spec:       appsv1.DeploymentSpec{Replicas: size, Selector: &metav1.LabelSelector{MatchLabels: app}, Template: template},
		},
		&appsv1.ReplicaSet{
			ObjectMeta: about(namespace, "web-v1", hash, ownedBy("Deployment", namespace, "web")),
			Spec:       appsv1.ReplicaSetSpec{Replicas: size, Selector: &metav1.LabelSelector{MatchLabels: hash}, Template: hashed},
			Status:     appsv1.ReplicaSetStatus{Replicas: *size, ReadyReplicas: *size},
		},
		&corev1.Service{ObjectMeta: about(namespace, "web-service", app, nil), Spec: corev1.ServiceSpec{Selector: maps.Clone(app)}},
		&networkingv1.Ingress{ObjectMeta: about(namespace, "web-ingress", nil, nil), Spec: networkingv1.IngressSpec{
			Rules: []networkingv1.IngressRule{{IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}}}}},
		}},
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: about(namespace, "web-hpa", nil, nil), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		}},
		&policyv1.PodDisruptionBudget{ObjectMeta: about(namespace, "web-pdb", nil, nil), Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: app}}},
	}
	for n := range pods {
		objects = append(objects, podOf(namespace, n, true))
	}
	w.add(t, objects...)
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	r.Spec.WorkloadRef = v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	r.Spec.Strategy.Canary = &v1beta1.CanaryStrategy{Release: v1beta1.Release{
		Steps:           []v1beta1.Step{{Traffic: new("20%"), Replicas: new(intstr.FromString("20%"))}},
		TrafficRoutings: []v1beta1.TrafficRoutingRef{{Service: "web-service", Ingress: &v1beta1.IngressRef{Name: "web-ingress"}}},
	}}
	if _, err := w.as(t, admin).RolloutsV1beta1().Rollouts(namespace).Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// rows returns one line for each node, as role/name, and for each hidden kind.
func rows(tree *v1beta1.RolloutTree) string {
	var lines []string
	for _, n := range tree.Nodes {
		line := n.Role + " " + n.Name + " " + n.Health
		if n.Pods != nil && n.Ready != nil {
			line += fmt.Sprintf(" %d/%d", *n.Ready, *n.Pods)
		}
		lines = append(lines, strings.TrimSpace(line+" "+n.Message))
	}
	for _, h := range tree.Hidden {
		line := "hidden " + h.Kind + ": " + h.Permission
		if h.Count != nil {
			line += fmt.Sprintf(" (%d)", *h.Count)
		}
		lines = append(lines, strings.TrimSpace(line+" "+h.Message))
	}
	return strings.Join(lines, "\n")
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/test/cluster"
)

// TestAPIServicesDeleted deletes the APIServices during releases, in a cluster with CRDs of the
// same kinds. The owners of the objects that serve requests are not found then. The garbage
// collector restarts and deletes objects without an owner, but none that serves requests. Then the
// releases continue. This test does not run in parallel with others, which would read the API of
// the CRDs.
func TestAPIServicesDeleted(t *testing.T) {
	c := &crdInstallation{t: t, steps: &app{t: t}}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		s := apiService(version + "." + openKruiseGroup)
		if err := testEnv.client.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
			t.Fatal(err)
		}
		c.services = append(c.services, s)
	}
	shared, extra := start(t, defaultPlan()), start(t, canaryPlan())
	apps := []*app{shared, extra}
	for _, a := range apps {
		a.release("v2")
		a.eventually("step 1 waits", a.waitsAtStep(1))
	}
	before := map[string]types.UID{}
	for _, a := range apps {
		for name, o := range a.createdObjects() {
			before[name] = o.GetUID()
		}
	}
	if len(before) < 5 {
		t.Fatalf("the releases created only these objects: %v", before)
	}
	for _, k := range openKruiseKinds {
		if err := testEnv.client.Create(t.Context(), definition(k.plural, k.singular, k.kind, k.versions)); err != nil {
			t.Fatal(err)
		}
	}
	restored := false
	restore := func() {
		if !restored {
			restored = true
			c.restore()
		}
	}
	defer restore()
	for _, s := range c.services {
		if err := testEnv.client.Delete(t.Context(), apiService(s.GetName())); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range c.services {
		c.steps.eventually("the CRDs serve "+s.GetName(), c.servesAPIService(s.GetName(), false))
	}
	restartGarbageCollector(t, shared)
	for _, a := range apps {
		now := a.createdObjects()
		for name, o := range now {
			if before[name] != o.GetUID() || o.GetDeletionTimestamp() != nil {
				t.Errorf("%s was collected: uid %s, deleted %v, want uid %s", name, o.GetUID(), o.GetDeletionTimestamp(), before[name])
			}
			delete(before, name)
		}
	}
	for name := range before {
		t.Errorf("%s was collected", name)
	}
	restore()
	for _, a := range apps {
		a.eventually("step 1 waits", a.waitsAtStep(1))
		a.promoteAll()
		a.eventually("the Rollout is Healthy", a.isHealthy)
		a.awaitPods(versions{"v2": 6})
	}
}

// While an APIService is missing, the garbage collector must not delete the Deployments and Ingresses
// that Weir created for a release, so no user can. All other objects can be deleted. This test does not run in parallel
// with others, because they need the APIService.
func TestAPIServiceMissing(t *testing.T) {
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	c := &crdInstallation{t: t, steps: a}
	s := apiService("v1alpha1." + openKruiseGroup)
	if err := testEnv.client.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
		t.Fatal(err)
	}
	if err := testEnv.client.Delete(t.Context(), s.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		s.SetResourceVersion("")
		if err := testEnv.client.Create(context.WithoutCancel(t.Context()), s); err != nil {
			t.Fatal(err)
		}
		c.steps.eventually("Weir serves "+s.GetName(), c.servesAPIService(s.GetName(), true))
		a.promoteAll()
		a.eventually("the Rollout is Healthy", a.isHealthy)
	}()
	canary := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name + "-canary"}}
	a.eventually("the canary Ingress can not be deleted", func(ctx context.Context) error {
		if err := testEnv.client.Delete(ctx, canary, client.DryRunAll); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			return fmt.Errorf("deleting it: %w", err)
		}
		return nil
	})
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name + "-canary"}}
	if err := testEnv.client.Delete(t.Context(), service, client.DryRunAll); err != nil {
		t.Errorf("the canary Service has the labels of the Service, and can not be deleted: %v", err)
	}
	deleteUnrelatedObjects(t, a.namespace)
}

// deleteUnrelatedObjects creates objects that do not belong to a release and deletes them.
func deleteUnrelatedObjects(t *testing.T, namespace string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "not-of-weir"}
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": meta.Name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	for _, o := range []client.Object{
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: pod,
		}},
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: meta.Name, Port: networkingv1.ServiceBackendPort{Number: 80}},
		}}},
	} {
		if err := testEnv.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if err := testEnv.client.Delete(t.Context(), o); err != nil {
			t.Errorf("%T that Weir has not created can not be deleted: %v", o, err)
		}
	}
}

// createdObjects returns the objects that a release of the application has created, by kind and
// name.
func (a *app) createdObjects() map[string]client.Object {
	a.t.Helper()
	made := map[string]client.Object{}
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceList{}, &networkingv1.IngressList{}} {
		if err := testEnv.client.List(a.t.Context(), list, client.InNamespace(a.namespace)); err != nil {
			a.t.Fatal(err)
		}
		for _, o := range objectsOf(list) {
			if len(o.GetOwnerReferences()) > 0 {
				made[fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())] = o
			}
		}
	}
	return made
}

func objectsOf(list client.ObjectList) (all []client.Object) {
	switch l := list.(type) {
	case *appsv1.DeploymentList:
		for i := range l.Items {
			all = append(all, &l.Items[i])
		}
	case *corev1.ServiceList:
		for i := range l.Items {
			all = append(all, &l.Items[i])
		}
	case *networkingv1.IngressList:
		for i := range l.Items {
			all = append(all, &l.Items[i])
		}
	}
	return all
}

// restartGarbageCollector restarts the garbage collector, which then checks each object. It waits
// until several objects without an owner, created one after the other, have been collected.
func restartGarbageCollector(t *testing.T, a *app) {
	t.Helper()
	if err := errors.Join(testEnv.cluster.End(cluster.ControllerManager), testEnv.cluster.Start(cluster.ControllerManager)); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		marker := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: a.namespace, Name: fmt.Sprintf("marker-%d", i),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: openKruiseGroup + "/v1beta1", Kind: "Rollout", Name: "none", UID: types.UID(fmt.Sprintf("none-%d", i))}},
		}}
		if err := testEnv.client.Create(t.Context(), marker); err != nil {
			t.Fatal(err)
		}
		a.eventually("an object without an owner is collected", func(ctx context.Context) error {
			return isGone(&corev1.ConfigMap{}, client.ObjectKeyFromObject(marker))(ctx)
		})
	}
}

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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/test/cluster"
)

// crdInstallation is the cluster while CRDs serve the API instead of Weir.
type crdInstallation struct {
	t *testing.T
	// steps provides the wait functions for cluster-scoped objects.
	steps *app
	// services are Weir's APIServices.
	services []*unstructured.Unstructured
}

var openKruiseKinds = []struct {
	plural, singular, kind string
	versions               []string
}{
	{"rollouts", "rollout", "Rollout", []string{"v1beta1", "v1alpha1"}},
	{"batchreleases", "batchrelease", "BatchRelease", []string{"v1beta1", "v1alpha1"}},
	{"trafficroutings", "trafficrouting", "TrafficRouting", []string{"v1alpha1"}},
	{"rollouthistories", "rollouthistory", "RolloutHistory", []string{"v1alpha1"}},
}

const openKruiseGroup = "rollouts.kruise.io"

func definition(plural, singular, kind string, versions []string) *unstructured.Unstructured {
	var served []any
	for i, version := range versions {
		served = append(served, map[string]any{
			"name": version, "served": true, "storage": i == 0, "subresources": map[string]any{"status": map[string]any{}},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + openKruiseGroup},
		"spec": map[string]any{
			"group": openKruiseGroup, "scope": "Namespaced", "versions": served,
			"names": map[string]any{"plural": plural, "singular": singular, "kind": kind, "listKind": kind + "List"},
		},
	}}
}

func apiService(name string) *unstructured.Unstructured {
	s := &unstructured.Unstructured{}
	s.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	s.SetName(name)
	return s
}

// switchToCRDs installs CRDs like those of OpenKruise, removes Weir's APIServices, and stops
// weir-controller.
func switchToCRDs(t *testing.T) *crdInstallation {
	t.Helper()
	c := &crdInstallation{t: t, steps: &app{t: t}}
	for _, version := range []string{"v1beta1", "v1alpha1"} {
		s := apiService(version + "." + openKruiseGroup)
		if err := testEnv.client.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
			t.Fatal(err)
		}
		c.services = append(c.services, s)
	}
	c.steps.deleteOtherObjects() // an import requires an empty store
	for _, k := range openKruiseKinds {
		if err := testEnv.client.Create(t.Context(), definition(k.plural, k.singular, k.kind, k.versions)); err != nil {
			t.Fatal(err)
		}
	}
	c.serveCRDs()
	return c
}

// serveCRDs is the way back to the CRDs: kube-apiserver registers local APIServices for them once
// Weir's are deleted.
func (c *crdInstallation) serveCRDs() {
	c.t.Helper()
	if err := testEnv.cluster.End(cluster.WeirController); err != nil {
		c.t.Fatal(err)
	}
	for _, s := range c.services {
		if err := testEnv.client.Delete(context.WithoutCancel(c.t.Context()), apiService(s.GetName())); client.IgnoreNotFound(err) != nil {
			c.t.Fatal(err)
		}
	}
	for _, s := range c.services {
		c.steps.eventually("the CRDs serve "+s.GetName(), c.servesAPIService(s.GetName(), false))
	}
	for _, k := range openKruiseKinds {
		c.steps.eventually(k.plural+" of the CRD are served", func(ctx context.Context) error {
			_, err := listed(ctx, k.kind, k.versions[0])
			return err
		})
	}
}

// serveWeir patches the APIServices as docs/migrate.md describes.
func (c *crdInstallation) serveWeir() {
	c.t.Helper()
	for _, s := range c.services {
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"kube-aggregator.kubernetes.io/automanaged": nil}}, "spec": s.Object["spec"],
		})
		if err != nil {
			c.t.Fatal(err)
		}
		err = testEnv.client.Patch(c.t.Context(), apiService(s.GetName()), client.RawPatch(types.MergePatchType, patch))
		if err != nil {
			c.t.Fatal(err)
		}
	}
	for _, s := range c.services {
		c.steps.eventually("Weir serves "+s.GetName(), c.servesAPIService(s.GetName(), true))
	}
}

// servesAPIService returns a check that an APIService is available, and whether it is remote.
func (c *crdInstallation) servesAPIService(name string, remote bool) func(context.Context) error {
	return func(ctx context.Context) error {
		s := apiService(name)
		if err := testEnv.client.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		if _, found, _ := unstructured.NestedMap(s.Object, "spec", "service"); found != remote {
			return fmt.Errorf("remote: %t", found)
		}
		conditions, _, _ := unstructured.NestedSlice(s.Object, "status", "conditions")
		for _, condition := range conditions {
			if fields, ok := condition.(map[string]any); ok && fields["type"] == "Available" && fields["status"] == "True" {
				return nil
			}
		}
		return errors.New("the APIService is not available")
	}
}

// listed lists all objects of one of Weir's kinds.
func listed(ctx context.Context, kind, version string) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: openKruiseGroup, Version: version, Kind: kind + "List"})
	return list, testEnv.client.List(ctx, list)
}

// deleteOtherObjects deletes stored objects of other tests. Their namespaces are deleted slowly,
// and those of failed tests stay.
func (a *app) deleteOtherObjects() {
	a.t.Helper()
	for _, k := range openKruiseKinds {
		a.eventually("there are no other "+k.plural, func(ctx context.Context) error {
			list, err := listed(ctx, k.kind, k.versions[0])
			for i := range list.Items {
				if o := &list.Items[i]; o.GetNamespace() != a.namespace {
					err = errors.Join(err, fmt.Errorf("there is %s/%s", o.GetNamespace(), o.GetName()), client.IgnoreNotFound(testEnv.client.Delete(ctx, o)))
				}
			}
			return err
		})
	}
}

// restore deletes the CRDs with their objects, and restores Weir's APIServices.
func (c *crdInstallation) restore() {
	c.serveCRDs()
	ctx := context.WithoutCancel(c.t.Context())
	for _, k := range openKruiseKinds {
		list, err := listed(ctx, k.kind, k.versions[0])
		if err != nil {
			c.t.Fatal(err)
		}
		for i := range list.Items {
			bare := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			err := errors.Join(testEnv.client.Patch(ctx, &list.Items[i], bare), client.IgnoreNotFound(testEnv.client.Delete(ctx, &list.Items[i])))
			if err != nil {
				c.t.Error(err)
			}
		}
	}
	for _, k := range openKruiseKinds {
		d := definition(k.plural, k.singular, k.kind, k.versions)
		if err := testEnv.client.Delete(ctx, d); err != nil {
			c.t.Error(err)
		}
		c.steps.eventually("the CRD of "+k.plural+" is gone", isGone(d, client.ObjectKeyFromObject(d)))
	}
	// kube-apiserver publishes the schema when an APIService is created, and not when its service changes.
	for _, s := range c.services {
		c.steps.eventually("the APIService of the CRDs is gone", isGone(s.DeepCopy(), client.ObjectKeyFromObject(s)))
		s.SetResourceVersion("")
		if err := testEnv.client.Create(ctx, s); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, s := range c.services {
		c.steps.eventually("Weir serves "+s.GetName(), c.servesAPIService(s.GetName(), true))
	}
	testEnv.startProcess(c.t, cluster.WeirController)
}

// startProcess starts a process again.
func (w *environment) startProcess(t *testing.T, name string) {
	t.Helper()
	if err := w.cluster.Start(name); err != nil {
		t.Fatal(err)
	}
}

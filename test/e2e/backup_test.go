// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/test/cluster"
)

// backupKinds are the kinds that a backup of a namespace contains, in the order in which they are restored. ReplicaSets come
// before Deployments, as with Velero: the Deployment controller would create the newest one otherwise.
var backupKinds = []string{"Service", "Ingress", "ReplicaSet", "Deployment", "RolloutHistory", "Rollout"}

// dump returns the objects of the namespace as kubectl prints them, without what tools such as Velero do not restore: the
// status, owners, and what the cluster sets. Objects that Weir owns are left out (docs/data.md).
func (a *app) dump() []*unstructured.Unstructured {
	a.t.Helper()
	got := testEnv.admin.kubectl(a, "get", "services,ingresses,deployments,replicasets,rollouthistories,rollouts", "-o", "yaml")
	got.mustSucceed()
	lists, err := cluster.Decode(strings.NewReader(got.out))
	if err != nil {
		a.t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	if err := lists[0].EachListItem(func(item runtime.Object) error {
		all = append(all, item.(*unstructured.Unstructured))
		return nil
	}); err != nil {
		a.t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return strings.HasPrefix(r.APIVersion, "rollouts.kruise.io/") })
	})
	for _, o := range all {
		for _, field := range [][]string{
			{"status"}, {"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"metadata", "namespace"}, {"metadata", "uid"}, {"metadata", "resourceVersion"},
			{"metadata", "generation"}, {"metadata", "creationTimestamp"}, {"metadata", "managedFields"}, {"metadata", "ownerReferences"}, {"metadata", "finalizers"},
		} {
			unstructured.RemoveNestedField(o.Object, field...)
		}
	}
	slices.SortStableFunc(all, func(one, other *unstructured.Unstructured) int {
		return slices.Index(backupKinds, one.GetKind()) - slices.Index(backupKinds, other.GetKind())
	})
	return all
}

// restoreInto creates the dumped objects in an empty namespace, in their order.
func (a *app) restoreInto(t *testing.T, objects []*unstructured.Unstructured) *app {
	t.Helper()
	b := newNamespace(t)
	b.plan = a.plan
	for _, o := range objects {
		text, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		testEnv.admin.kubectlWith(b, string(text), "create", "-f", "-").mustSucceed()
	}
	return b
}

// TestBackupAtRest restores an application without a release. Rollouts may come first or last.
func TestBackupAtRest(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.eventually("the Rollout is Healthy", a.isHealthy)
	objects := a.dump()
	for _, order := range []string{"Rollouts last", "Rollouts first"} {
		if order == "Rollouts first" {
			i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Rollout" })
			objects = slices.Concat(objects[i:], objects[:i])
		}
		t.Run(order, func(t *testing.T) {
			b := a.restoreInto(t, objects)
			b.eventually("the Rollout is Healthy", b.released("v1"))
			b.release("v2")
			b.eventually("step 1 waits", b.waitsAtStep(1))
		})
	}
}

// TestBackupInRelease restores an application in the middle of a release, with its ReplicaSets. Pods of both versions run as
// before, requests go to the stable ones, and the release waits for a decision: abort takes the application back to the
// stable version, and resume starts the release with step 1.
func TestBackupInRelease(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	objects := a.dump()
	for verb, want := range map[string]func(*app){
		"abort": func(b *app) { b.eventually("all pods are stable", b.runs(versions{"v1": b.plan.replicas})) },
		"resume": func(b *app) {
			b.eventually("step 1 waits", b.waitsAtStep(1))
			b.promoteAll()
			b.eventually("the Rollout is Healthy", b.released("v2"))
		},
	} {
		t.Run(verb, func(t *testing.T) {
			b := a.restoreInto(t, objects)
			b.eventually("the release is paused", func(ctx context.Context) error {
				r, err := b.getRollout(ctx)
				if err == nil && reason(r) != "Paused" {
					err = fmt.Errorf("the Rollout is %s %s: %s", r.Status.Phase, reason(r), r.Status.Message)
				}
				return err
			})
			service := &corev1.Service{}
			if err := testEnv.client.Get(t.Context(), b.key(name), service); err != nil {
				t.Fatal(err)
			}
			if service.Spec.Selector["pod-template-hash"] == "" {
				t.Errorf("the Service selects %v, want the stable pods only", service.Spec.Selector)
			}
			b.eventually("stable pods run", func(context.Context) error {
				if b.countPodsOf("v1") == 0 {
					return fmt.Errorf("there are %d of v2 and none of v1", b.countPodsOf("v2"))
				}
				return nil
			})
			if n := b.countPodsOf("v2"); n > a.countPodsOf("v2") {
				t.Errorf("%d pods have the new version, and the backup has %d", n, a.countPodsOf("v2"))
			}
			b.post(testEnv.admin, verb, "", http.StatusCreated)
			want(b)
		})
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// configMap creates an object that can be an owner or a dependent.
func (a *app) configMap(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	a.t.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
	a.create(o)
	return o
}

func ownedBy(apiVersion, kind string, o client.Object) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: o.GetName(), UID: o.GetUID(), BlockOwnerDeletion: &yes}
}

// TestClientDeletions deletes a Rollout with each propagation policy: its dependents are deleted
// before it, after it, or not at all.
func TestClientDeletions(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan} {
		for _, version := range []string{newVersion.String(), oldVersion.String()} {
			t.Run(fmt.Sprintf("%s %s", policy, version), func(t *testing.T) {
				t.Parallel()
				a := newNamespace(t)
				r := a.newRolloutWithoutWorkload("web")
				a.awaitObserved("web")
				child := a.configMap("child", ownedBy(version, "Rollout", r))
				child.Finalizers = []string{"example.com/wait"}
				if err := testEnv.client.Update(t.Context(), child); err != nil {
					t.Fatal(err)
				}
				if err := testEnv.client.Delete(t.Context(), r, client.PropagationPolicy(policy)); err != nil {
					t.Fatal(err)
				}
				if policy == metav1.DeletePropagationForeground {
					a.eventually("the child is deleted first", a.isBeingDeleted("child"))
					a.consistently("the Rollout waits for its child", func(ctx context.Context) error {
						return testEnv.client.Get(ctx, a.key("web"), &v1beta1.Rollout{})
					})
				} else {
					a.eventually("the Rollout is gone", a.isGone(&v1beta1.Rollout{}, "web"))
				}
				if policy == metav1.DeletePropagationOrphan {
					a.eventually("the child has no owner", a.isOrphaned("child"))
					return
				}
				a.eventually("the child is being deleted", a.isBeingDeleted("child"))
				testEnv.admin.kubectl(a, "patch", "configmap", "child", "--type=merge", `-p={"metadata":{"finalizers":null}}`).mustSucceed()
				a.eventually("the child is gone", a.isGone(&corev1.ConfigMap{}, "child"))
				a.eventually("the Rollout is gone", a.isGone(&v1beta1.Rollout{}, "web"))
			})
		}
	}
}

// isBeingDeleted returns an error unless the object has a deletion timestamp.
func (a *app) isBeingDeleted(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		o := &corev1.ConfigMap{}
		if err := testEnv.client.Get(ctx, a.key(name), o); err != nil {
			return err
		}
		if o.DeletionTimestamp == nil {
			return errors.New("the object is not being deleted")
		}
		return nil
	}
}

func (a *app) isOrphaned(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		o := &corev1.ConfigMap{}
		if err := testEnv.client.Get(ctx, a.key(name), o); err != nil {
			return err
		}
		if len(o.OwnerReferences) > 0 || o.DeletionTimestamp != nil {
			return fmt.Errorf("owners %v, deletion %v", o.OwnerReferences, o.DeletionTimestamp)
		}
		return nil
	}
}

// TestClientOwnerReferences checks that a Rollout is deleted with its owner, and that references to
// owners which never existed do not keep it.
func TestClientOwnerReferences(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	owner := a.configMap("owner")
	for name, owners := range map[string][]metav1.OwnerReference{
		"web": {ownedBy("v1", "ConfigMap", owner)}, "stray": {{APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: "never"}},
	} {
		r := (&app{plan: planWithoutTraffic(), rollout: name}).newRollout()
		r.Spec.WorkloadRef.Name, r.OwnerReferences = name, owners
		a.create(r)
	}
	a.eventually("the Rollout without an existing owner is gone", a.isGone(&v1beta1.Rollout{}, "stray"))
	a.checkNow(func(ctx context.Context) error { return testEnv.client.Get(ctx, a.key("web"), &v1beta1.Rollout{}) })
	if err := testEnv.client.Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	a.eventually("the Rollout is gone", a.isGone(&v1beta1.Rollout{}, "web"))
}

// TestClientFinalizers checks that a Rollout exists until its last finalizer is removed, and that a
// write can always remove a finalizer.
func TestClientFinalizers(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	a.newRolloutWithoutWorkload("web")
	a.awaitObserved("web")
	testEnv.admin.kubectl(a, "patch", "rollout", "web", "--type=json", `-p=[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/wait"}]`).mustSucceed()
	testEnv.admin.kubectl(a, "delete", "rollout", "web", "--wait=false").mustSucceed("deleted")
	a.eventually("Weir has removed its finalizer", func(context.Context) error {
		if got := a.mustGetRollout("web").Finalizers; !slices.Equal(got, []string{"example.com/wait"}) {
			return fmt.Errorf("finalizers %v", got)
		}
		return nil
	})
	testEnv.admin.kubectl(a, "patch", "rollout", "web", "--type=json", `-p=[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/more"}]`).mustFail("finalizers")
	testEnv.admin.kubectl(a, "patch", "rollout", "web", "--type=merge", `-p={"metadata":{"finalizers":null}}`).mustSucceed()
	a.eventually("the Rollout is gone", a.isGone(&v1beta1.Rollout{}, "web"))
}

// TestClientDeleteCollection deletes many Rollouts with one request: those with a label, or all in
// a namespace.
func TestClientDeleteCollection(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	for _, name := range []string{"a", "b", "c"} {
		a.newRolloutWithoutWorkload(name)
	}
	testEnv.admin.kubectl(a, "label", "rollouts", "a", "b", "team=payments").mustSucceed()
	testEnv.admin.send(t, request{method: "DELETE", path: a.listPath(oldVersion) + "?labelSelector=team%3Dpayments&dryRun=All"}).mustAnswer(http.StatusOK)
	a.awaitObserved("a")
	testEnv.admin.send(t, request{method: "DELETE", path: a.listPath(oldVersion) + "?labelSelector=team%3Dpayments"}).mustAnswer(http.StatusOK)
	a.eventually("a is gone", a.isGone(&v1beta1.Rollout{}, "a"))
	a.eventually("b is gone", a.isGone(&v1beta1.Rollout{}, "b"))
	if r := a.mustGetRollout("c"); r.DeletionTimestamp != nil {
		t.Error("c should have stayed")
	}
	if err := testEnv.client.DeleteAllOf(t.Context(), &v1beta1.Rollout{}, client.InNamespace(a.namespace)); err != nil {
		t.Fatal(err)
	}
	a.eventually("c is gone", a.isGone(&v1beta1.Rollout{}, "c"))
}

// TestClientNamespaceDeletion deletes a namespace with a release in progress, and nothing is left.
func TestClientNamespaceDeletion(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkBatchReleaseOwner()
	a.guard.atLeast(0)
	a.guard.stop(t)
	a.guard = nil
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}
	if err := testEnv.client.Delete(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	a.eventually("the namespace is gone", isGone(space, client.ObjectKeyFromObject(space)))
	if _, err := a.getRollout(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("the Rollout should be gone: %v", err)
	}
	// The cleanup of the test deletes the namespace again.

	if err := testEnv.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}); err != nil {
		t.Fatal(err)
	}
}

// checkBatchReleaseOwner checks that the Rollout owns the BatchRelease, so that tools display it
// below the Rollout.
func (a *app) checkBatchReleaseOwner() {
	a.t.Helper()
	r := a.mustGetRollout(a.rollout)
	b := &v1beta1.BatchRelease{}
	if err := testEnv.client.Get(a.t.Context(), a.key(a.rollout), b); err != nil {
		a.t.Fatal(err)
	}
	o := metav1.GetControllerOf(b)
	if o == nil || o.UID != r.UID || o.Kind != "Rollout" || o.APIVersion != newVersion.String() || o.BlockOwnerDeletion == nil || !*o.BlockOwnerDeletion {
		a.t.Errorf("the BatchRelease belongs to %+v", o)
	}
}

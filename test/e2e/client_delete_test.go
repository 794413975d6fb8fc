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

// configMap makes something that others may own, or be owned by.
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

// What a Rollout owns goes before it, after it, or stays, as the deletion asks.
func TestClientDeletions(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan} {
		for _, version := range []string{newVersion.String(), oldVersion.String()} {
			t.Run(fmt.Sprintf("%s %s", policy, version), func(t *testing.T) {
				t.Parallel()
				a := space(t)
				r := a.idle("web")
				a.seen("web")
				child := a.configMap("child", ownedBy(version, "Rollout", r))
				child.Finalizers = []string{"example.com/wait"}
				if err := here.client.Update(t.Context(), child); err != nil {
					t.Fatal(err)
				}
				if err := here.client.Delete(t.Context(), r, client.PropagationPolicy(policy)); err != nil {
					t.Fatal(err)
				}
				if policy == metav1.DeletePropagationForeground {
					a.until("the child is to go first", a.leaves("child"))
					a.stays("the Rollout waits for its child", func(ctx context.Context) error {
						return here.client.Get(ctx, a.key("web"), &v1beta1.Rollout{})
					})
				} else {
					a.until("the Rollout is gone", a.gone(&v1beta1.Rollout{}, "web"))
				}
				if policy == metav1.DeletePropagationOrphan {
					a.until("the child is nobody's", a.orphaned("child"))
					return
				}
				a.until("the child is to go", a.leaves("child"))
				here.admin.kubectl(a, "patch", "configmap", "child", "--type=merge", `-p={"metadata":{"finalizers":null}}`).works()
				a.until("the child is gone", a.gone(&corev1.ConfigMap{}, "child"))
				a.until("the Rollout is gone", a.gone(&v1beta1.Rollout{}, "web"))
			})
		}
	}
}

func (a *app) leaves(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		o := &corev1.ConfigMap{}
		if err := here.client.Get(ctx, a.key(name), o); err != nil {
			return err
		}
		if o.DeletionTimestamp == nil {
			return errors.New("it is not being deleted")
		}
		return nil
	}
}

func (a *app) orphaned(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		o := &corev1.ConfigMap{}
		if err := here.client.Get(ctx, a.key(name), o); err != nil {
			return err
		}
		if len(o.OwnerReferences) > 0 || o.DeletionTimestamp != nil {
			return fmt.Errorf("owners %v, deletion %v", o.OwnerReferences, o.DeletionTimestamp)
		}
		return nil
	}
}

// A Rollout that something else owns goes with it. Owners that never were are
// no owners.
func TestClientOwned(t *testing.T) {
	t.Parallel()
	a := space(t)
	owner := a.configMap("owner")
	for name, owners := range map[string][]metav1.OwnerReference{
		"web": {ownedBy("v1", "ConfigMap", owner)}, "stray": {{APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: "never"}},
	} {
		r := (&app{plan: plain(), rollout: name}).newRollout()
		r.Spec.WorkloadRef.Name, r.OwnerReferences = name, owners
		a.create(r)
	}
	a.until("the stray is gone", a.gone(&v1beta1.Rollout{}, "stray"))
	a.sees(func(ctx context.Context) error { return here.client.Get(ctx, a.key("web"), &v1beta1.Rollout{}) })
	if err := here.client.Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	a.until("the Rollout is gone", a.gone(&v1beta1.Rollout{}, "web"))
}

// A Rollout stays as long as somebody has a finalizer on it, and a write may
// always take one off.
func TestClientFinalizers(t *testing.T) {
	t.Parallel()
	a := space(t)
	a.idle("web")
	a.seen("web")
	here.admin.kubectl(a, "patch", "rollout", "web", "--type=json", `-p=[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/wait"}]`).works()
	here.admin.kubectl(a, "delete", "rollout", "web", "--wait=false").works("deleted")
	a.until("Weir lets go", func(context.Context) error {
		if got := a.fetch("web").Finalizers; !slices.Equal(got, []string{"example.com/wait"}) {
			return fmt.Errorf("finalizers %v", got)
		}
		return nil
	})
	here.admin.kubectl(a, "patch", "rollout", "web", "--type=json", `-p=[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/more"}]`).fails("finalizers")
	here.admin.kubectl(a, "patch", "rollout", "web", "--type=merge", `-p={"metadata":{"finalizers":null}}`).works()
	a.until("the Rollout is gone", a.gone(&v1beta1.Rollout{}, "web"))
}

// Many are deleted with one request, those of a label or all of a namespace.
func TestClientDeleteCollection(t *testing.T) {
	t.Parallel()
	a := space(t)
	for _, name := range []string{"a", "b", "c"} {
		a.idle(name)
	}
	here.admin.kubectl(a, "label", "rollouts", "a", "b", "team=payments").works()
	here.admin.send(t, request{method: "DELETE", path: a.list(oldVersion) + "?labelSelector=team%3Dpayments&dryRun=All"}).must(http.StatusOK)
	a.seen("a")
	here.admin.send(t, request{method: "DELETE", path: a.list(oldVersion) + "?labelSelector=team%3Dpayments"}).must(http.StatusOK)
	a.until("a is gone", a.gone(&v1beta1.Rollout{}, "a"))
	a.until("b is gone", a.gone(&v1beta1.Rollout{}, "b"))
	if r := a.fetch("c"); r.DeletionTimestamp != nil {
		t.Error("c should have stayed")
	}
	if err := here.client.DeleteAllOf(t.Context(), &v1beta1.Rollout{}, client.InNamespace(a.namespace)); err != nil {
		t.Fatal(err)
	}
	a.until("c is gone", a.gone(&v1beta1.Rollout{}, "c"))
}

// A namespace is deleted with a release under way in it, and nothing is left.
func TestClientNamespaceDeletion(t *testing.T) {
	t.Parallel()
	a := start(t, plain())
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.owns()
	a.guard.atLeast(0)
	a.guard.stop(t)
	a.guard = nil
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}
	if err := here.client.Delete(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	a.until("the namespace is gone", gone(space, client.ObjectKeyFromObject(space)))
	if _, err := a.stored(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("the Rollout should be gone: %v", err)
	}
	// For the end of the test, which deletes it once more.

	if err := here.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}); err != nil {
		t.Fatal(err)
	}
}

// owns wants the BatchRelease to be the Rollout's, so that tools draw it below it.
func (a *app) owns() {
	a.t.Helper()
	r := a.fetch(a.rollout)
	b := &v1beta1.BatchRelease{}
	if err := here.client.Get(a.t.Context(), a.key(a.rollout), b); err != nil {
		a.t.Fatal(err)
	}
	o := metav1.GetControllerOf(b)
	if o == nil || o.UID != r.UID || o.Kind != "Rollout" || o.APIVersion != newVersion.String() || o.BlockOwnerDeletion == nil || !*o.BlockOwnerDeletion {
		a.t.Errorf("the BatchRelease belongs to %+v", o)
	}
}

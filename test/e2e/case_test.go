// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/patience"
)

// The tests in case_*_test.go release step by step as clients of OpenKruise Rollouts do. Such a
// client polls for some conditions, and after that reads other fields only once. These fields must
// then have their final values.

// kruiseClient behaves like a client of OpenKruise Rollouts.
type kruiseClient struct {
	*app
	// version is the API version in which the client reads and writes Rollouts.
	version schema.GroupVersion
	// deployment is the Deployment as the client read it last. The client sends this copy with each
	// update, including outdated annotations and an outdated pause.
	deployment *appsv1.Deployment
}

// scenario describes the objects at the start of a case.
type scenario struct {
	replicas int32
	// routed gives it a Service and an Ingress.
	routed bool
	// rollout is in the API version of the client.
	rollout    client.Object
	deployment func(*appsv1.Deployment)
	service    func(*corev1.Service)
	// router is an optional router, in addition to the Service.
	router client.Object
}

// startScenario creates the Rollout first, then the network objects, and the Deployment last. The
// Rollout must become Healthy as soon as all pods are ready.
func startScenario(t *testing.T, s scenario) *kruiseClient {
	t.Helper()
	c := &kruiseClient{app: newNamespace(t), version: newVersion}
	if _, old := s.rollout.(*v1alpha1.Rollout); old {
		c.version = oldVersion
	}
	t.Cleanup(c.deleteEverything)
	c.plan = plan{replicas: s.replicas, surge: 1, withTraffic: s.routed}
	c.rollout = s.rollout.GetName()
	c.create(s.rollout)
	if s.routed {
		service := c.newService()
		service.Labels, service.Annotations = map[string]string{"team": "red"}, map[string]string{"pager": "4711"}
		if s.service != nil {
			s.service(service)
		}
		c.create(service)
		c.create(c.newIngress())
	}
	if s.router != nil {
		c.create(s.router)
	}
	d := c.newDeployment()
	d.Annotations = map[string]string{"owner": "red"}
	// The namespace is deleted only after the grace period of the last pod.
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(1))
	if s.deployment != nil {
		s.deployment(d)
	}
	c.create(d)
	c.awaitAllUpdated()
	c.awaitInitialHealthy()
	return c
}

// awaitInitialHealthy checks the status of a Rollout that has not released anything yet.
func (c *kruiseClient) awaitInitialHealthy() {
	c.t.Helper()
	sets := c.activeReplicaSets(name)
	// Clients poll once a second.
	c.checkAfter(time.Second, "the Rollout is Healthy", c.rolloutSatisfies(func(r *rolloutReading) bool {
		return r.Status.Phase == "Healthy" && len(sets) == 1 && r.releaseStatus().StableRevision == sets[0]
	}))
	c.refreshDeployment()
	c.before = c.readOriginals()
	c.guard = watchPods(c.app)
	c.guard.atLeast(c.plan.replicas)
}

// deleteEverything deletes the objects in the order of a client that ignores dependencies. No
// object may be left that cannot be deleted.
func (c *kruiseClient) deleteEverything() {
	if c.t.Failed() {
		return
	}
	if c.guard != nil {
		c.guard.atLeast(0)
	}
	ctx, cancel := patience.Context(context.Background(), patience.Long)
	defer cancel()
	for _, kind := range []client.Object{
		&appsv1.Deployment{}, &v1beta1.BatchRelease{}, &v1beta1.Rollout{}, &corev1.Service{}, &networkingv1.Ingress{},
	} {
		if err := testEnv.client.DeleteAllOf(ctx, kind, client.InNamespace(c.namespace)); err != nil {
			c.t.Errorf("deleting every %T: %v", kind, err)
		}
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	if err := testEnv.client.Delete(ctx, ns, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		c.t.Error(err)
	}
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := testEnv.client.Get(ctx, client.ObjectKeyFromObject(ns), ns)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		c.t.Errorf("the namespace stays: %v, %+v", err, ns.Status.Conditions)
	}
}

// refreshDeployment reads the Deployment for the next update.
func (c *kruiseClient) refreshDeployment() {
	c.t.Helper()
	d, err := c.getDeployment(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.deployment = d
}

// updateDeployment changes the copy of the Deployment and writes it: the current Deployment is
// read, but template, size, pause, and all labels and annotations of the older copy are sent.
func (c *kruiseClient) updateDeployment(change func(*appsv1.Deployment)) *appsv1.Deployment {
	c.t.Helper()
	change(c.deployment)
	var put *appsv1.Deployment
	err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		if put, err = c.getDeployment(c.t.Context()); err != nil {
			return err
		}
		put.Spec.Replicas, put.Spec.Template, put.Spec.Paused = c.deployment.Spec.Replicas, *c.deployment.Spec.Template.DeepCopy(), c.deployment.Spec.Paused
		put.Labels, put.Annotations = merged(put.Labels, c.deployment.Labels), merged(put.Annotations, c.deployment.Annotations)
		return testEnv.client.Update(c.t.Context(), put)
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return put
}

func merged(into, from map[string]string) map[string]string {
	all := maps.Clone(into)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, from)
	return all
}

// setVersion writes another version. The response to this request must already be paused.
func (c *kruiseClient) setVersion(version string) {
	c.t.Helper()
	put := c.updateDeployment(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image(version) })
	if !put.Spec.Paused {
		c.t.Fatalf("the Deployment is not paused with %s", version)
	}
}

// setReplicas writes another size.
func (c *kruiseClient) setReplicas(replicas int32) {
	c.t.Helper()
	c.guard.atLeast(min(replicas, c.plan.replicas))
	c.plan.replicas = replicas
	c.updateDeployment(func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
}

// updateRolloutSpec changes the spec of the Rollout and replaces the object.
func updateRolloutSpec[T any, R interface {
	*T
	client.Object
}](c *kruiseClient, change func(R)) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		r := R(new(T))
		if err := testEnv.client.Get(c.t.Context(), c.key(c.rollout), r); err != nil {
			return err
		}
		change(r)
		return testEnv.client.Update(c.t.Context(), r)
	})
}

// editPlan changes the spec in v1beta1 or v1alpha1, and requires that the change is accepted.
func (c *kruiseClient) editPlan(change func(*v1beta1.Rollout)) {
	c.t.Helper()
	if err := updateRolloutSpec(c, change); err != nil {
		c.t.Fatal(err)
	}
}

func (c *kruiseClient) editV1alpha1Plan(change func(*v1alpha1.Rollout)) {
	c.t.Helper()
	if err := updateRolloutSpec(c, change); err != nil {
		c.t.Fatal(err)
	}
}

// newRolloutObject is the Rollout without types, to read and to patch.
func (c *kruiseClient) newRolloutObject() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(c.version.WithKind("Rollout"))
	u.SetNamespace(c.namespace)
	u.SetName(c.rollout)
	return u
}

// patchStatusField writes one field of the progress with a patch of the status.
func (c *kruiseClient) patchStatusField(r *rolloutReading, field string) {
	c.t.Helper()
	where := "canaryStatus"
	if r.Status.BlueGreen != nil {
		where = "blueGreenStatus"
	}
	body := fmt.Sprintf(`{"status":{%q:{%s}}}`, where, field)
	if err := testEnv.client.Status().Patch(c.t.Context(), c.newRolloutObject(), client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		c.t.Fatalf("patching %s: %v", body, err)
	}
}

// approve writes the approval repeatedly while the same step is still paused, and gives up after
// ten seconds.
func (c *kruiseClient) approve() {
	c.t.Helper()
	first := c.readRollout()
	c.retryUntil("approve", 500*time.Millisecond, func(r *rolloutReading) bool {
		if r.releaseStatus().State != "StepPaused" || r.releaseStatus().Step != first.releaseStatus().Step {
			return true
		}
		c.patchStatusField(r, `"currentStepState":"StepReady"`)
		return false
	})
}

// jump writes the next step once a second until the client observes the release outside of a pause.
// If the client misses that moment, it continues to write.
func (c *kruiseClient) jump(step int32) {
	c.t.Helper()
	c.retryUntil("jump", time.Second, func(r *rolloutReading) bool {
		if r.releaseStatus().State != "StepPaused" {
			return true
		}
		c.patchStatusField(r, fmt.Sprintf(`"nextStepIndex":%d`, step))
		return false
	})
}

func (c *kruiseClient) retryUntil(what string, every time.Duration, try func(*rolloutReading) bool) {
	c.t.Helper()
	ctx, cancel := patience.Context(c.t.Context(), patience.Long)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, every, true, func(context.Context) (bool, error) {
		return try(c.readRollout()), nil
	})
	if err != nil {
		c.t.Fatalf("the release did not %s: %v, %s", what, err, c.readRollout())
	}
}

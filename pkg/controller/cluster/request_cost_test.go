// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/rollout"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// The cost of a release does not depend on the number of other Rollouts, and no pass reads another namespace, so that
// several leaders could divide the namespaces. The test counts requests and the results of lists on a host that imitates
// kube-controller-manager. It does not measure etcd, networks and caches; make bench does.
func TestReleasesCostTheSame(t *testing.T) {
	t.Parallel()
	alone := countRequests(t, 1)
	for _, n := range []int{10, 300} {
		among := countRequests(t, n)
		if diff := cmp.Diff(alone, among); diff != "" {
			t.Errorf("a release beside %d others (-alone +beside them):\n%s", n-1, diff)
		}
	}
	if alone["status of Rollout"] == 0 || alone["change of ReplicaSet"] == 0 {
		t.Errorf("counted %v, want the writes of a release", alone)
	}
}

// countRequests returns the number of requests of one release in a cluster with the number of Rollouts.
func countRequests(t *testing.T, rollouts int) map[string]int {
	t.Helper()
	h := newHost(t, rollouts)
	h.runUntilHealthy("v1")
	h.updateImage("v2")
	h.counts = map[string]int{}
	h.runUntilHealthy("v2")
	return h.counts
}

// host is a cluster with many namespaces of one application each. Only the first application is released.
type host struct {
	t      *testing.T
	client client.WithWatch
	clock  *clocktesting.FakeClock
	// passes are those over the Rollout of the first namespace.
	passes reconciler
	counts map[string]int
}

const namespace = "shop-0"

func newHost(t *testing.T, namespaces int) *host {
	t.Helper()
	h := &host{t: t, clock: newFakeClock(), counts: map[string]int{}}
	var objects []client.Object
	for i := range namespaces {
		objects = append(objects, newApplication(fmt.Sprintf("shop-%d", i))...)
	}
	h.client = newClientBuilder(t, objects...).Build()
	counting := interceptor.NewClient(h.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			h.countRequest("read", key.Namespace, o, 1)
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if err := c.List(ctx, list, opts...); err != nil {
				return err
			}
			h.countRequest("list", (&client.ListOptions{}).ApplyOptions(opts).Namespace, list, 1)
			h.countRequest("item", namespace, list, meta.LenList(list))
			return nil
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			h.countRequest("creation", o.GetNamespace(), o, 1)
			o.SetUID(uuid.NewUUID())
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			h.countRequest("change", o.GetNamespace(), o, 1)
			return c.Update(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			h.countRequest("change", o.GetNamespace(), o, 1)
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			h.countRequest(sub, o.GetNamespace(), o, 1)
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			h.countRequest("deletion", o.GetNamespace(), o, 1)
			return c.Delete(ctx, o, opts...)
		},
	})
	h.passes = &rollout.Reconciler{
		Server:   cluster.Server{Reader: cluster.Reader{Client: counting, Live: counting, Indexes: counting}},
		Recorder: events.NewFakeRecorder(1000), Clock: h.clock, AdmissionStatus: cluster.AdmissionStatus{Reader: counting},
		Options: rollout.Options{Labels: planner.LabelNamed},
	}
	return h
}

// countRequest counts a request. The request must concern the first namespace or a cluster-scoped object.
func (h *host) countRequest(what, in string, o runtime.Object, n int) {
	h.t.Helper()
	gvk, err := h.client.GroupVersionKindFor(o)
	if err != nil {
		h.t.Fatal(err)
	}
	if in != namespace && gvk.Group != "admissionregistration.k8s.io" {
		h.t.Errorf("a pass over %s asks for a %s of %s in %q", namespace, what, gvk.Kind, in)
	}
	h.counts[what+" of "+gvk.Kind] += n
}

// newApplication returns an application at rest, and a Rollout that no pass has observed.
func newApplication(in string) []client.Object {
	labels := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "v1"}}},
	}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "web", UID: types.UID("of " + in), Generation: 1},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(4)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}
	d.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	step := func(share string) v1beta1.Step {
		return v1beta1.Step{Replicas: new(intstr.FromString(share)), Pause: &v1beta1.Pause{Duration: new(int32(1))}}
	}
	return []client.Object{d, &v1beta1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "web", UID: types.UID("rollout of " + in), Generation: 1},
		Spec: v1beta1.RolloutSpec{
			WorkloadRef: v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			Strategy:    v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{Release: v1beta1.Release{Steps: []v1beta1.Step{step("50%"), step("100%")}}}},
		},
	}}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/kruise"
)

// advanced is an application in an Advanced StatefulSet of five pods.
type advanced struct{ *cloned }

func startAdvanced(t *testing.T, routed bool, steps ...v1beta1.Step) *advanced {
	t.Helper()
	s := newOrdered(t, kruise.StatefulSetKind, routed, steps...)
	s.begin(map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": int64(0), "podUpdatePolicy": "InPlaceIfPossible"}})
	return s
}

func newOrdered(t *testing.T, kind schema.GroupVersionKind, routed bool, steps ...v1beta1.Step) *advanced {
	s := &advanced{&cloned{app: space(t), kind: kind}}
	s.plan = plan{replicas: 5, unavailable: 1, routed: routed, grace: 1, steps: steps, change: func(r *v1beta1.Rollout) {
		r.Spec.WorkloadRef.APIVersion, r.Spec.WorkloadRef.Kind = kind.GroupVersion().String(), kind.Kind
	}}
	return s
}

// step waits at a step and wants pods and partition as it says.
func (s *advanced) step(step int32, updated int64) {
	s.t.Helper()
	s.until(fmt.Sprintf("step %d waits", step), s.waitsAt(step))
	s.inspects(step)
	set := s.set()
	if got := of(set, "spec", "updateStrategy", "rollingUpdate", "partition"); got != 5-updated {
		s.t.Errorf("step %d: partition %v, want %d", step, got, 5-updated)
	}
	r, err := s.stored(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	c := r.Status.Canary
	if of(set, "status", "updatedReplicas") != updated || int64(c.CanaryReplicas) != updated || int64(c.CanaryReadyReplicas) != updated {
		s.t.Errorf("step %d: %v; the Rollout counts %d, %d ready; want %d", step, set.Object["status"], c.CanaryReplicas, c.CanaryReadyReplicas, updated)
	}
	if c.StableRevision != of(s.was, "status", "currentRevision") || c.CanaryRevision != of(set, "status", "updateRevision") || c.PodTemplateHash != c.CanaryRevision {
		s.t.Errorf("stable %s, new %s of %s; its controller says %v", c.StableRevision, c.CanaryRevision, c.PodTemplateHash, set.Object["status"])
	}
}

// Case 67: a step with traffic, one without, to the end; then it grows.
func advancedToTheEnd(t *testing.T) {
	t.Parallel()
	s := startAdvanced(t, true, with(manual("20%"), "20%"), manual("60%"))
	s.ships("v2")
	s.step(1, 1)
	s.sees(s.weight("20"))
	s.sees(s.serves(name, versions{"v1": 4}))
	s.sees(s.serves(name+"-canary", versions{"v2": 1}))
	s.promote(1)
	s.step(2, 3)
	s.sees(s.serves(name, versions{"v1": 2, "v2": 3}))
	s.promote(2)
	s.gives("v2")
	s.change(`{"spec":{"replicas":6}}`)
	s.until("it grows", s.runsPods(versions{"v2": 6}))
	s.sees(s.healthy)
}

// Pods are updated in place, there and back, and are the same pods in the end.
func advancedInPlace(t *testing.T) {
	t.Parallel()
	s := startAdvanced(t, false, manual("20%"), manual("60%"), manual("100%"))
	was := s.uids()
	s.ships("v2")
	s.step(1, 1)
	s.promote(1)
	s.step(2, 3)
	s.abort()
	s.sees(s.runsPods(versions{"v1": 5}))
	s.post(here.admin, "retry", "", http.StatusCreated)
	s.step(1, 1)
	s.promoteAll()
	s.gives("v2")
	s.same("the pods", was, s.uids())
}

// What its owner has paused goes on step by step, and is paused again in the end; an
// ordinal that is reserved is no pod that is missing.
func advancedPaused(t *testing.T) {
	t.Parallel()
	s := newOrdered(t, kruise.StatefulSetKind, false, manual("20%"), manual("60%"))
	s.begin(map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": int64(0), "paused": true}})
	s.change(`{"spec":{"reserveOrdinals":[1]}}`)
	s.until("pod 5 is there instead of pod 1", func(ctx context.Context) error {
		var last corev1.Pod
		return errors.Join(here.client.Get(ctx, s.key(name+"-5"), &last), s.runsPods(versions{"v1": 5})(ctx))
	})
	s.was = s.set()
	s.ships("v2")
	s.step(1, 1)
	s.promote(1)
	s.step(2, 3)
	s.abort()
	s.until("its controller has counted them", s.runsPods(versions{"v1": 5}))
	s.post(here.admin, "retry", "", http.StatusCreated)
	s.step(1, 1)
	s.promoteAll()
	s.gives("v2")
	s.ships("v3")
	s.until("step 1 waits", s.waitsAt(1))
	s.ships("v2")
	s.gives("v2")
}

// Case 69: a version that never gets ready, and the way back, for which nobody has
// to delete a pod.
func advancedBack(t *testing.T) {
	t.Parallel()
	s := startAdvanced(t, true, with(manual("20%"), "20%"), manual("60%"))
	s.ships("failed")
	s.until("step 1 waits for its pod", s.says("1 of 1 new pods"))
	s.sees(s.at(1, "StepUpgrade"))
	s.ships("v1")
	s.gives("v1")
}

// Deleting the Rollout goes on natively.
func advancedDeleted(t *testing.T) {
	t.Parallel()
	s := startAdvanced(t, false, manual("20%"), manual("100%"))
	s.ships("v2")
	s.step(1, 1)
	s.leaves()
	s.isAs("v2")
}

// A StatefulSet of a group that nobody here knows is released like one that is known,
// once weir-controller may read it, and held by the webhook that is asked about it.
func orderedOfAnyGroup(t *testing.T) {
	t.Parallel()
	s := newOrdered(t, kruise.LookAlikeKind, false, manual("20%"), manual("60%"), manual("100%"))
	s.make(map[string]any{"rollingUpdate": map[string]any{"partition": "0%"}})
	s.create(s.newRollout())
	s.permit()
	s.until("what does not fit is told", s.says("a value of type string in spec.updateStrategy.rollingUpdate.partition"))
	s.change(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
	s.was = s.set()
	s.until("it is not protected", s.condition("Protected", "AdmissionIncomplete", "is asked about updates of statefulsets.apps.example.com"))
	here.admin.kubectl(s.app, "patch", "mutatingwebhookconfiguration/weir-workloads", "--type=json", "--patch", `[{"op": "add", "path": "/webhooks/1/rules/-",
		"value": {"apiGroups": ["apps.example.com"], "apiVersions": ["*"], "resources": ["statefulsets"], "operations": ["UPDATE"], "scope": "Namespaced"}}]`).works("patched")
	defer func() {
		here.admin.kubectl(s.app, "patch", "mutatingwebhookconfiguration/weir-workloads", "--type=json", "--patch", `[{"op": "remove", "path": "/webhooks/1/rules/1"}]`).works("patched")
	}()
	s.until("it is protected", s.condition("Protected", ""))
	s.until("the Rollout is Healthy", s.healthy)
	s.guard = watchPods(s.app)
	s.guard.atLeast(4)
	s.guard.atMost("v2", 3)
	s.ships("v2")
	s.step(1, 1)
	s.promote(1)
	s.step(2, 3)
	s.abort()
	s.until("its controller has counted them", s.runsPods(versions{"v1": 5}))
	s.post(here.admin, "retry", "", http.StatusCreated)
	s.step(1, 1)
	s.guard.atMost("v2", 5)
	s.promoteAll()
	s.gives("v2")
	s.leaves()
	s.change(heldByHand("v3", `{"rollingUpdate":{"partition":32767}}`))
	s.forgotten("v3")
}

// permit lets weir-controller read them, which is told before. What it watches by
// then it goes on to watch, so that this is not taken back.
func (s *advanced) permit() {
	s.t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-look-alikes", Labels: map[string]string{"rollouts.kruise.io/aggregate-to-weir-controller": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{s.kind.Group}, Resources: []string{"statefulsets"}, Verbs: []string{"get", "list", "watch", "patch"}}},
	}
	if err := here.client.Get(s.t.Context(), client.ObjectKeyFromObject(role), &rbacv1.ClusterRole{}); err == nil {
		return
	}
	s.until("the missing permission is told", s.says("may not list them in every namespace", "aggregate-to-weir-controller"))
	if err := here.client.Create(s.t.Context(), role); err != nil {
		s.t.Fatal(err)
	}
}

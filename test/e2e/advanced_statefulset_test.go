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

// advancedStatefulSetApp is an application in an Advanced StatefulSet of five pods.
type advancedStatefulSetApp struct{ *cloneSetApp }

func startAdvancedStatefulSetApp(t *testing.T, routed bool, steps ...v1beta1.Step) *advancedStatefulSetApp {
	t.Helper()
	s := newStatefulSetLikeApp(t, kruise.StatefulSetKind, routed, steps...)
	s.deployAndAwait(map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": int64(0), "podUpdatePolicy": "InPlaceIfPossible"}})
	return s
}

func newStatefulSetLikeApp(t *testing.T, kind schema.GroupVersionKind, routed bool, steps ...v1beta1.Step) *advancedStatefulSetApp {
	s := &advancedStatefulSetApp{&cloneSetApp{app: newNamespace(t), kind: kind}}
	s.plan = plan{replicas: 5, unavailable: 1, withTraffic: routed, grace: 1, steps: steps, customizeRollout: func(r *v1beta1.Rollout) {
		r.Spec.WorkloadRef.APIVersion, r.Spec.WorkloadRef.Kind = kind.GroupVersion().String(), kind.Kind
	}}
	return s
}

// checkStep waits until a step is paused, and checks pods, partition and status.
func (s *advancedStatefulSetApp) checkStep(step int32, updated int64) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("step %d waits", step), s.waitsAtStep(step))
	s.checkTreeAndPlan(step)
	set := s.getCloneSet()
	if got := nestedField(set, "spec", "updateStrategy", "rollingUpdate", "partition"); got != 5-updated {
		s.t.Errorf("step %d: partition %v, want %d", step, got, 5-updated)
	}
	r, err := s.getRollout(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	c := r.Status.Canary
	if nestedField(set, "status", "updatedReplicas") != updated || int64(c.CanaryReplicas) != updated || int64(c.CanaryReadyReplicas) != updated {
		s.t.Errorf("step %d: %v; the Rollout counts %d, %d ready; want %d", step, set.Object["status"], c.CanaryReplicas, c.CanaryReadyReplicas, updated)
	}
	if c.StableRevision != nestedField(s.original, "status", "currentRevision") || c.CanaryRevision != nestedField(set, "status", "updateRevision") || c.PodTemplateHash != c.CanaryRevision {
		s.t.Errorf("stable %s, new %s of %s; the status is %v", c.StableRevision, c.CanaryRevision, c.PodTemplateHash, set.Object["status"])
	}
}

// Case 67: a step with traffic, one without, until the end; then the StatefulSet is scaled up.
func advancedStatefulSet(t *testing.T) {
	t.Parallel()
	s := startAdvancedStatefulSetApp(t, true, withTraffic(manualStep("20%"), "20%"), manualStep("60%"))
	s.setVersion("v2")
	s.checkStep(1, 1)
	s.checkNow(s.hasCanaryWeight("20"))
	s.checkNow(s.serviceSelects(name, versions{"v1": 4}))
	s.checkNow(s.serviceSelects(name+"-canary", versions{"v2": 1}))
	s.promote(1)
	s.checkStep(2, 3)
	s.checkNow(s.serviceSelects(name, versions{"v1": 2, "v2": 3}))
	s.promote(2)
	s.awaitRestored("v2")
	s.patchCloneSet(`{"spec":{"replicas":6}}`)
	s.eventually("the StatefulSet is scaled up", s.runsPods(versions{"v2": 6}))
	s.checkNow(s.isHealthy)
}

// advancedStatefulSetInPlace updates pods in place and rolls back. All pods keep their UIDs.
func advancedStatefulSetInPlace(t *testing.T) {
	t.Parallel()
	s := startAdvancedStatefulSetApp(t, false, manualStep("20%"), manualStep("60%"), manualStep("100%"))
	was := s.podUIDs()
	s.setVersion("v2")
	s.checkStep(1, 1)
	s.promote(1)
	s.checkStep(2, 3)
	s.abort()
	s.checkNow(s.runsPods(versions{"v1": 5}))
	s.post(testEnv.admin, "retry", "", http.StatusCreated)
	s.checkStep(1, 1)
	s.promoteAll()
	s.awaitRestored("v2")
	s.checkEqual("the pods", was, s.podUIDs())
}

// advancedStatefulSetPaused releases a StatefulSet that its owner has paused. The release runs step
// by step, and the StatefulSet is paused again at the end. A reserved ordinal does not count as a
// missing pod.
func advancedStatefulSetPaused(t *testing.T) {
	t.Parallel()
	s := newStatefulSetLikeApp(t, kruise.StatefulSetKind, false, manualStep("20%"), manualStep("60%"))
	s.deployAndAwait(map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": int64(0), "paused": true}})
	s.patchCloneSet(`{"spec":{"reserveOrdinals":[1]}}`)
	s.eventually("pod 5 is there instead of pod 1", func(ctx context.Context) error {
		var last corev1.Pod
		return errors.Join(testEnv.client.Get(ctx, s.key(name+"-5"), &last), s.runsPods(versions{"v1": 5})(ctx))
	})
	s.original = s.getCloneSet()
	s.setVersion("v2")
	s.checkStep(1, 1)
	s.promote(1)
	s.checkStep(2, 3)
	s.abort()
	s.eventually("the status counts all pods", s.runsPods(versions{"v1": 5}))
	s.post(testEnv.admin, "retry", "", http.StatusCreated)
	s.checkStep(1, 1)
	s.promoteAll()
	s.awaitRestored("v2")
	s.setVersion("v3")
	s.eventually("step 1 waits", s.waitsAtStep(1))
	s.setVersion("v2")
	s.awaitRestored("v2")
}

// Case 69: a version that never becomes ready, and its rollback, which needs no manual deletion of
// pods.
func advancedStatefulSetRollback(t *testing.T) {
	t.Parallel()
	s := startAdvancedStatefulSetApp(t, true, withTraffic(manualStep("20%"), "20%"), manualStep("60%"))
	s.setVersion("failed")
	s.eventually("step 1 waits for its pod", s.messageContains("1 of 1 new pods"))
	s.checkNow(s.isAtStage(1, "StepUpgrade"))
	s.setVersion("v1")
	s.awaitRestored("v1")
}

// advancedStatefulSetRolloutDeleted deletes the Rollout. The release continues natively.
func advancedStatefulSetRolloutDeleted(t *testing.T) {
	t.Parallel()
	s := startAdvancedStatefulSetApp(t, false, manualStep("20%"), manualStep("100%"))
	s.setVersion("v2")
	s.checkStep(1, 1)
	s.deleteRollout()
	s.checkRestoredAt("v2")
}

// statefulSetLikeOfOtherGroup releases a kind of an unknown API group with the fields of a
// StatefulSet. weir-controller needs the permission to read it, and the webhook needs a rule for
// it.
func statefulSetLikeOfOtherGroup(t *testing.T) {
	t.Parallel()
	s := newStatefulSetLikeApp(t, kruise.LookAlikeKind, false, manualStep("20%"), manualStep("60%"), manualStep("100%"))
	s.createCloneSet(map[string]any{"rollingUpdate": map[string]any{"partition": "0%"}})
	s.create(s.newRollout())
	s.grantPermission()
	s.eventually("the unsupported field is reported", s.messageContains("a value of type string in spec.updateStrategy.rollingUpdate.partition"))
	s.patchCloneSet(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
	s.original = s.getCloneSet()
	s.eventually("the condition reports that the workload is not protected", s.hasCondition("Protected", "AdmissionIncomplete", "is asked about updates of statefulsets.apps.example.com"))
	testEnv.admin.kubectl(s.app, "patch", "mutatingwebhookconfiguration/weir-workloads", "--type=json", "--patch", `[{"op": "add", "path": "/webhooks/1/rules/-",
		"value": {"apiGroups": ["apps.example.com"], "apiVersions": ["*"], "resources": ["statefulsets"], "operations": ["UPDATE"], "scope": "Namespaced"}}]`).mustSucceed("patched")
	defer func() {
		testEnv.admin.kubectl(s.app, "patch", "mutatingwebhookconfiguration/weir-workloads", "--type=json", "--patch", `[{"op": "remove", "path": "/webhooks/1/rules/1"}]`).mustSucceed("patched")
	}()
	s.eventually("the workload is protected", s.hasCondition("Protected", ""))
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.guard = watchPods(s.app)
	s.guard.atLeast(4)
	s.guard.atMost("v2", 3)
	s.setVersion("v2")
	s.checkStep(1, 1)
	s.promote(1)
	s.checkStep(2, 3)
	s.abort()
	s.eventually("the status counts all pods", s.runsPods(versions{"v1": 5}))
	s.post(testEnv.admin, "retry", "", http.StatusCreated)
	s.checkStep(1, 1)
	s.guard.atMost("v2", 5)
	s.promoteAll()
	s.awaitRestored("v2")
	s.deleteRollout()
	s.patchCloneSet(manualHold("v3", `{"rollingUpdate":{"partition":32767}}`))
	s.checkOrphanedHoldRestored("v3")
}

// grantPermission gives weir-controller the permission that the Rollout reports as missing. The
// permission is not removed afterwards, because weir-controller continues to watch the kind.
func (s *advancedStatefulSetApp) grantPermission() {
	s.t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-look-alikes", Labels: map[string]string{"rollouts.kruise.io/aggregate-to-weir-controller": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{s.kind.Group}, Resources: []string{"statefulsets"}, Verbs: []string{"get", "list", "watch", "patch"}}},
	}
	if err := testEnv.client.Get(s.t.Context(), client.ObjectKeyFromObject(role), &rbacv1.ClusterRole{}); err == nil {
		return
	}
	s.eventually("the missing permission is reported", s.messageContains("may not list them in every namespace", "aggregate-to-weir-controller"))
	if err := testEnv.client.Create(s.t.Context(), role); err != nil {
		s.t.Fatal(err)
	}
}

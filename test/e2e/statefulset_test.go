// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// TestStatefulSet runs scenarios of StatefulSets.
func TestStatefulSet(t *testing.T) {
	t.Parallel()
	cases := map[string]func(*testing.T){
		"to the end":            statefulSetToTheEnd,
		"third version":         statefulSetThirdVersion,
		"rollback":              statefulSetRollback,
		"aborted":               statefulSetAborted,
		"aborted when complete": statefulSetAbortedWhenComplete,
		"scaled to zero":        statefulSetScaledToZero,
		"deleted":               statefulSetRolloutDeleted,
		"OnDelete":              statefulSetOnDelete,
		"batch labels":          statefulSetBatchLabels,
		"jumps":                 statefulSetJumps,
		"scaled":                statefulSetScaled,
		"disabled":              statefulSetRolloutDisabled,
		"orphaned hold":         statefulSetOrphanedHold,
	}
	for _, name := range selectCases(cases, "to the end", "aborted") {
		t.Run(name, cases[name])
	}
}

// statefulSetApp is an application in a StatefulSet of five pods.
type statefulSetApp struct {
	*app
	original appsv1.StatefulSet
}

// holdAllPartition is a partition with which no pod is replaced.
const holdAllPartition = 32767

func startStatefulSetApp(t *testing.T, routed bool, owners func(*appsv1.StatefulSet), steps ...v1beta1.Step) *statefulSetApp {
	t.Helper()
	s := &statefulSetApp{app: newNamespace(t)}
	s.plan = plan{replicas: 5, unavailable: 1, withTraffic: routed, grace: 1, steps: steps, customizeRollout: func(r *v1beta1.Rollout) {
		r.Spec.WorkloadRef.Kind = "StatefulSet"
	}}
	d := s.newDeployment()
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(1))
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.labels()},
		Spec: appsv1.StatefulSetSpec{
			Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template, RevisionHistoryLimit: new(int32(1)),
		},
	}
	if owners != nil {
		owners(set)
	}
	s.create(set)
	if routed {
		s.create(s.newService())
		s.create(s.newIngress())
	}
	s.eventually("the StatefulSet is ready", s.runsPods(versions{"v1": 5}))
	s.original = *s.getStatefulSet()
	s.create(s.newRollout())
	return s
}

// createRollout creates the Rollout, and waits until it is Healthy.
func (s *statefulSetApp) createRollout() *statefulSetApp {
	s.t.Helper()
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.guard = watchPods(s.app)
	s.guard.atLeast(4)
	return s
}

func (s *statefulSetApp) getStatefulSet() *appsv1.StatefulSet {
	s.t.Helper()
	set := &appsv1.StatefulSet{}
	if err := testEnv.client.Get(s.t.Context(), s.key(name), set); err != nil {
		s.t.Fatal(err)
	}
	return set
}

func (s *statefulSetApp) patchStatefulSet(body string) {
	s.t.Helper()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	if err := testEnv.client.Patch(s.t.Context(), set, client.RawPatch(types.StrategicMergePatchType, []byte(body))); err != nil {
		s.t.Fatal(err)
	}
}

func (s *statefulSetApp) setVersion(version string) {
	s.t.Helper()
	s.patchStatefulSet(fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, image(version)))
}

func (s *statefulSetApp) setReplicas(replicas int32) {
	s.t.Helper()
	s.guard.atLeast(0)
	s.patchStatefulSet(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// runsPods returns a check that exactly these pods exist, are ready, and are counted in the status.
func (s *statefulSetApp) runsPods(want versions) func(context.Context) error {
	return func(ctx context.Context) error {
		var pods corev1.PodList
		if err := testEnv.client.List(ctx, &pods, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		got := versions{}
		for i := range pods.Items {
			if !ready(&pods.Items[i]) {
				return fmt.Errorf("%s is not ready", pods.Items[i].Name)
			}
			got[versionOf(&pods.Items[i].Spec)]++
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("runs %v, want %v", got, want)
		}
		set := &appsv1.StatefulSet{}
		err := testEnv.client.Get(ctx, s.key(name), set)
		if n := int32(len(pods.Items)); err == nil && (set.Status.ObservedGeneration != set.Generation || set.Status.ReadyReplicas != n) { //nolint:gosec // a few
			err = fmt.Errorf("the status counts %d pods, at generation %d of %d", set.Status.ReadyReplicas, set.Status.ObservedGeneration, set.Generation)
		}
		return err
	}
}

// checkPartition checks the partition and the version of the template.
func (s *statefulSetApp) checkPartition(partition int32, version string) *appsv1.StatefulSet {
	s.t.Helper()
	set := s.getStatefulSet()
	if got := *set.Spec.UpdateStrategy.RollingUpdate.Partition; got != partition || versionOf(&set.Spec.Template.Spec) != version {
		s.t.Errorf("partition %d of %s, want %d of %s", got, versionOf(&set.Spec.Template.Spec), partition, version)
	}
	return set
}

// awaitRestored waits until all fields are as the owner wrote them, except for the version.
func (s *statefulSetApp) awaitRestored(version string) {
	s.t.Helper()
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.eventually("all pods run "+version, s.runsPods(versions{version: *s.getStatefulSet().Spec.Replicas}))
	set, was := s.getStatefulSet(), s.original.DeepCopy()
	was.Spec.Template.Spec.Containers[0].Image, was.Spec.Replicas = image(version), set.Spec.Replicas
	was.Labels[workloadTypeLabel] = "statefulset"
	s.checkEqual("the spec", was.Spec, set.Spec)
	s.checkEqual("the labels", was.Labels, set.Labels)
	s.checkEqual("the annotations", was.Annotations, set.Annotations)
	s.eventually("no objects of the release are left", s.hasNoReleaseObjects)
}

// checkStep waits until a step is paused, and checks pods, partition and status.
func (s *statefulSetApp) checkStep(step, updated int32, version string) *v1beta1.Rollout {
	s.t.Helper()
	s.eventually(fmt.Sprintf("step %d waits", step), s.waitsAtStep(step))
	s.checkTreeAndPlan(step)
	set := s.checkPartition(5-updated, version)
	r, err := s.getRollout(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	c, st := r.Status.Canary, set.Status
	if st.UpdatedReplicas != updated || c.CanaryReplicas != updated || c.CanaryReadyReplicas != updated {
		s.t.Errorf("step %d: %+v; the Rollout counts %d, %d ready; want %d", step, st, c.CanaryReplicas, c.CanaryReadyReplicas, updated)
	}
	if c.StableRevision != s.original.Status.CurrentRevision || c.CanaryRevision != st.UpdateRevision || c.PodTemplateHash != st.UpdateRevision {
		s.t.Errorf("stable %s, new %s of %s; want %s, %s", c.StableRevision, c.CanaryRevision, c.PodTemplateHash, s.original.Status.CurrentRevision, st.UpdateRevision)
	}
	s.eventually("the native controller has observed all ready pods", s.controllerCountsReady)
	return r
}

// controllerCountsReady returns an error until the status of the StatefulSet counts all pods as
// ready, which the native controller updates with a delay.
func (s *statefulSetApp) controllerCountsReady(context.Context) error {
	if n := s.getStatefulSet().Status.ReadyReplicas; n != 5 {
		return fmt.Errorf("%d pods are ready, of 5", n)
	}
	return nil
}

// Case 63: a step with traffic, one without, until the end; then the StatefulSet is scaled up.
func statefulSetToTheEnd(t *testing.T) {
	t.Parallel()
	s := startStatefulSetApp(t, true, nil, withTraffic(manualStep("20%"), "20%"), manualStep("60%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.checkNow(s.hasCanaryWeight("20"))
	s.checkNow(s.serviceSelects(name, versions{"v1": 4}))
	s.checkNow(s.serviceSelects(name+"-canary", versions{"v2": 1}))
	s.promote(1)
	s.checkStep(2, 3, "v2")
	s.checkNow(s.hasCanaryWeight(""))
	s.checkNow(s.serviceSelects(name, versions{"v1": 2, "v2": 3}))
	s.promote(2)
	s.awaitRestored("v2")
	s.patchStatefulSet(`{"spec":{"replicas":6}}`)
	s.eventually("the StatefulSet is scaled up", s.runsPods(versions{"v2": 6}))
	s.checkNow(s.isHealthy)
}

// Case 64: a third version begins at step 1, and is rolled back to the first.
func statefulSetThirdVersion(t *testing.T) {
	t.Parallel()
	s := startStatefulSetApp(t, true, nil, withTraffic(manualStep("20%"), "20%"), manualStep("40%"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.promote(1)
	s.checkStep(2, 2, "v2")
	s.guard.atMost("v3", 1)
	s.setVersion("v3")
	s.checkStep(1, 1, "v3")
	s.checkNow(s.hasCanaryWeight("20"))
	s.checkNow(s.serviceSelects(name, versions{"v1": 3}))
	s.guard.atMost("v3", 6)
	s.promoteAll()
	s.awaitRestored("v3")
}

// Case 65: a version that never becomes ready blocks the native controller. The rollback needs no
// manual deletion of pods.
func statefulSetRollback(t *testing.T) {
	t.Parallel()
	s := startStatefulSetApp(t, true, nil, withTraffic(manualStep("20%"), "20%"), manualStep("60%")).createRollout()
	s.setVersion("failed")
	s.eventually("step 1 waits for its pod", s.messageContains("1 of 1 new pods"))
	s.checkNow(s.isAtStage(1, "StepUpgrade"))
	s.setVersion("v1")
	s.awaitRestored("v1")
}

// statefulSetAborted checks that an abort returns every pod to the stable version and keeps the
// template held. Then it retries and rolls back.
func statefulSetAborted(t *testing.T) {
	t.Parallel()
	s := startStatefulSetApp(t, true, nil, withTraffic(manualStep("20%"), "20%"), withTraffic(manualStep("60%"), "50%"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.promote(1)
	s.checkStep(2, 3, "v2")
	s.abort()
	s.checkPartition(holdAllPartition, "v2")
	s.checkNow(s.runsPods(versions{"v1": 5}))
	s.checkNow(s.serviceSelects(name, versions{"v1": 5}))
	s.checkNow(s.hasCanaryWeight(""))
	s.post(testEnv.admin, "retry", "", http.StatusCreated)
	s.checkStep(1, 1, "v2")
	s.post(testEnv.admin, "rollback", "", http.StatusCreated)
	s.awaitRestored("v1")
}

// statefulSetAbortedWhenComplete aborts when every pod runs the new version, so the status no
// longer has the stable revision. The owner's own partition is restored in any case.
func statefulSetAbortedWhenComplete(t *testing.T) {
	t.Parallel()
	s := startStatefulSetApp(t, false, nil, manualStep("1"), manualStep("100%"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.promote(1)
	s.checkStep(2, 5, "v2")
	s.abort()
	s.checkPartition(holdAllPartition, "v2")
	s.checkNow(s.runsPods(versions{"v1": 5}))
	s.setVersion("v3")
	s.checkStep(1, 1, "v3")
	s.promoteAll()
	s.awaitRestored("v3")
}

// statefulSetScaledToZero scales to 0. Without pods, the native controller treats the newest
// template as the current one. Pods must still be created with the stable version.
func statefulSetScaledToZero(t *testing.T) {
	t.Parallel()
	s := startStatefulSetApp(t, false, nil, manualStep("20%"), manualStep("60%"), manualStep("100%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	s.setReplicas(0)
	s.eventually("no pod is left", s.runsPods(versions{}))
	s.eventually("the stable template is set", func(context.Context) error {
		if v := versionOf(&s.getStatefulSet().Spec.Template.Spec); v != "v1" {
			return fmt.Errorf("the template is of %s", v)
		}
		return nil
	})
	s.guard.atMost("v2", 1)
	s.setReplicas(5)
	s.eventually("one pod is new again", s.runsPods(versions{"v1": 4, "v2": 1}))
	s.checkPartition(4, "v2")
	s.guard.atMost("v2", 5)
	s.promoteAll()
	s.awaitRestored("v2")
}

// statefulSetRolloutDeleted deletes the Rollout. The release continues natively.
func statefulSetRolloutDeleted(t *testing.T) {
	t.Parallel()
	s := startStatefulSetApp(t, true, nil, withTraffic(manualStep("20%"), "20%"), manualStep("60%")).createRollout()
	s.setVersion("v2")
	s.checkStep(1, 1, "v2")
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.rollout}}
	if err := testEnv.client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s.eventually("all pods run v2", s.runsPods(versions{"v2": 5}))
	s.checkPartition(0, "v2")
	s.eventually("no objects of the release are left", s.hasNoReleaseObjects)
}

// statefulSetOnDelete has the strategy OnDelete: nothing is held, no pod is deleted, and the
// Rollout reports the reason.
func statefulSetOnDelete(t *testing.T) {
	t.Parallel()
	s := startStatefulSetApp(t, false, func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	}, manualStep("20%"), manualStep("100%"))
	s.eventually("the Rollout reports what must be changed", s.messageContains("OnDelete", "set RollingUpdate"))
	s.setVersion("v2")
	s.eventually("the native controller has observed v2", s.runsPods(versions{"v1": 5}))
	s.consistently("no pod is replaced", s.runsPods(versions{"v1": 5}))
	s.patchStatefulSet(`{"spec":{"updateStrategy":{"type":"RollingUpdate"},"template":{"spec":{"containers":[{"name":"web","image":"` + image("v1") + `"}]}}}}`)
	s.eventually("the Rollout is Healthy", s.isHealthy)
}

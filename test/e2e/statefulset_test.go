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

// TestStatefulSet tells stories of StatefulSets.
func TestStatefulSet(t *testing.T) {
	t.Parallel()
	stories := map[string]func(*testing.T){
		"to the end":            statefulToTheEnd,
		"third":                 statefulThird,
		"back":                  statefulBack,
		"aborted":               statefulAborted,
		"aborted when complete": statefulAbortedWhenComplete,
		"down to nothing":       statefulDownToNothing,
		"deleted":               statefulDeleted,
		"on delete":             statefulOnDelete,
		"labelled":              statefulLabelled,
		"jumps":                 statefulJumps,
		"sized":                 statefulSized,
		"disabled":              statefulDisabled,
		"forgotten":             statefulForgotten,
	}
	for _, name := range some(stories, "to the end", "aborted") {
		t.Run(name, stories[name])
	}
}

// stateful is an application in a StatefulSet of five pods.
type stateful struct {
	*app
	was appsv1.StatefulSet
}

// untouched is the partition that lets nothing be replaced.
const untouched = 32767

func startStateful(t *testing.T, routed bool, owners func(*appsv1.StatefulSet), steps ...v1beta1.Step) *stateful {
	t.Helper()
	s := &stateful{app: space(t)}
	s.plan = plan{replicas: 5, unavailable: 1, routed: routed, grace: 1, steps: steps, change: func(r *v1beta1.Rollout) {
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
	s.until("the StatefulSet is ready", s.runsPods(versions{"v1": 5}))
	s.was = *s.set()
	s.create(s.newRollout())
	return s
}

// serve waits until the application is in service.
func (s *stateful) serve() *stateful {
	s.t.Helper()
	s.until("the Rollout is Healthy", s.healthy)
	s.guard = watchPods(s.app)
	s.guard.atLeast(4)
	return s
}

func (s *stateful) set() *appsv1.StatefulSet {
	s.t.Helper()
	set := &appsv1.StatefulSet{}
	if err := here.client.Get(s.t.Context(), s.key(name), set); err != nil {
		s.t.Fatal(err)
	}
	return set
}

func (s *stateful) change(body string) {
	s.t.Helper()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	if err := here.client.Patch(s.t.Context(), set, client.RawPatch(types.StrategicMergePatchType, []byte(body))); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stateful) ships(version string) {
	s.t.Helper()
	s.change(fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, image(version)))
}

func (s *stateful) sizes(replicas int32) {
	s.t.Helper()
	s.guard.atLeast(0)
	s.change(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// runsPods reports whether exactly these pods are there, ready, and counted.
func (s *stateful) runsPods(want versions) func(context.Context) error {
	return func(ctx context.Context) error {
		var pods corev1.PodList
		if err := here.client.List(ctx, &pods, client.InNamespace(s.namespace)); err != nil {
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
		err := here.client.Get(ctx, s.key(name), set)
		if n := int32(len(pods.Items)); err == nil && (set.Status.ObservedGeneration != set.Generation || set.Status.ReadyReplicas != n) { //nolint:gosec // a few
			err = fmt.Errorf("its controller counts %d pods, at generation %d of %d", set.Status.ReadyReplicas, set.Status.ObservedGeneration, set.Generation)
		}
		return err
	}
}

// stands wants the StatefulSet to be told so, now.
func (s *stateful) stands(partition int32, version string) *appsv1.StatefulSet {
	s.t.Helper()
	set := s.set()
	if got := *set.Spec.UpdateStrategy.RollingUpdate.Partition; got != partition || versionOf(&set.Spec.Template.Spec) != version {
		s.t.Errorf("partition %d of %s, want %d of %s", got, versionOf(&set.Spec.Template.Spec), partition, version)
	}
	return set
}

// gives wants everything back as the owner wrote it, but for the version.
func (s *stateful) gives(version string) {
	s.t.Helper()
	s.until("the Rollout is Healthy", s.healthy)
	s.until("all pods run "+version, s.runsPods(versions{version: *s.set().Spec.Replicas}))
	set, was := s.set(), s.was.DeepCopy()
	was.Spec.Template.Spec.Containers[0].Image, was.Spec.Replicas = image(version), set.Spec.Replicas
	was.Labels[workloadType] = "statefulset"
	s.same("the spec", was.Spec, set.Spec)
	s.same("the labels", was.Labels, set.Labels)
	s.same("the annotations", was.Annotations, set.Annotations)
	s.until("nothing is left beside it", s.alone)
}

// step waits at a step and wants pods and partition as it says.
func (s *stateful) step(step, updated int32, version string) *v1beta1.Rollout {
	s.t.Helper()
	s.until(fmt.Sprintf("step %d waits", step), s.waitsAt(step))
	s.inspects(step)
	set := s.stands(5-updated, version)
	r, err := s.stored(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	c, st := r.Status.Canary, set.Status
	if st.UpdatedReplicas != updated || c.CanaryReplicas != updated || c.CanaryReadyReplicas != updated {
		s.t.Errorf("step %d: %+v; the Rollout counts %d, %d ready; want %d", step, st, c.CanaryReplicas, c.CanaryReadyReplicas, updated)
	}
	if c.StableRevision != s.was.Status.CurrentRevision || c.CanaryRevision != st.UpdateRevision || c.PodTemplateHash != st.UpdateRevision {
		s.t.Errorf("stable %s, new %s of %s; want %s, %s", c.StableRevision, c.CanaryRevision, c.PodTemplateHash, s.was.Status.CurrentRevision, st.UpdateRevision)
	}
	s.until("its controller has seen all pods ready", s.ready)
	return r
}

// ready is what the native controller counts, which it writes when it has the time.
func (s *stateful) ready(context.Context) error {
	if n := s.set().Status.ReadyReplicas; n != 5 {
		return fmt.Errorf("%d pods are ready, of 5", n)
	}
	return nil
}

// Case 63: a step with traffic, one without, to the end; then it grows.
func statefulToTheEnd(t *testing.T) {
	t.Parallel()
	s := startStateful(t, true, nil, with(manual("20%"), "20%"), manual("60%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.sees(s.weight("20"))
	s.sees(s.serves(name, versions{"v1": 4}))
	s.sees(s.serves(name+"-canary", versions{"v2": 1}))
	s.promote(1)
	s.step(2, 3, "v2")
	s.sees(s.weight(""))
	s.sees(s.serves(name, versions{"v1": 2, "v2": 3}))
	s.promote(2)
	s.gives("v2")
	s.change(`{"spec":{"replicas":6}}`)
	s.until("it grows", s.runsPods(versions{"v2": 6}))
	s.sees(s.healthy)
}

// Case 64: a third version begins at step 1, and goes back to the first.
func statefulThird(t *testing.T) {
	t.Parallel()
	s := startStateful(t, true, nil, with(manual("20%"), "20%"), manual("40%"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.promote(1)
	s.step(2, 2, "v2")
	s.guard.atMost("v3", 1)
	s.ships("v3")
	s.step(1, 1, "v3")
	s.sees(s.weight("20"))
	s.sees(s.serves(name, versions{"v1": 3}))
	s.guard.atMost("v3", 6)
	s.promoteAll()
	s.gives("v3")
}

// Case 65: a version that never gets ready blocks its native controller, but not
// the way back, for which nobody has to delete a pod.
func statefulBack(t *testing.T) {
	t.Parallel()
	s := startStateful(t, true, nil, with(manual("20%"), "20%"), manual("60%")).serve()
	s.ships("failed")
	s.until("step 1 waits for its pod", s.says("1 of 1 new pods"))
	s.sees(s.at(1, "StepUpgrade"))
	s.ships("v1")
	s.gives("v1")
}

// An abort brings every pod back and keeps the template, held; then it is tried
// again, and rolled back.
func statefulAborted(t *testing.T) {
	t.Parallel()
	s := startStateful(t, true, nil, with(manual("20%"), "20%"), with(manual("60%"), "50%"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.promote(1)
	s.step(2, 3, "v2")
	s.abort()
	s.stands(untouched, "v2")
	s.sees(s.runsPods(versions{"v1": 5}))
	s.sees(s.serves(name, versions{"v1": 5}))
	s.sees(s.weight(""))
	s.post(here.admin, "retry", "", http.StatusCreated)
	s.step(1, 1, "v2")
	s.post(here.admin, "rollback", "", http.StatusCreated)
	s.gives("v1")
}

// When every pod runs the new version, its native controller has forgotten the
// stable one. The owner's own partition comes back, whatever happens.
func statefulAbortedWhenComplete(t *testing.T) {
	t.Parallel()
	s := startStateful(t, false, nil, manual("1"), manual("100%"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.promote(1)
	s.step(2, 5, "v2")
	s.abort()
	s.stands(untouched, "v2")
	s.sees(s.runsPods(versions{"v1": 5}))
	s.ships("v3")
	s.step(1, 1, "v3")
	s.promoteAll()
	s.gives("v3")
}

// Without pods the native controller takes the newest template for the current
// one. Pods that come back are of the stable version all the same.
func statefulDownToNothing(t *testing.T) {
	t.Parallel()
	s := startStateful(t, false, nil, manual("20%"), manual("60%"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.sizes(0)
	s.until("no pod is left", s.runsPods(versions{}))
	s.until("the stable template is set", func(context.Context) error {
		if v := versionOf(&s.set().Spec.Template.Spec); v != "v1" {
			return fmt.Errorf("the template is of %s", v)
		}
		return nil
	})
	s.guard.atMost("v2", 1)
	s.sizes(5)
	s.until("one pod is new again", s.runsPods(versions{"v1": 4, "v2": 1}))
	s.stands(4, "v2")
	s.guard.atMost("v2", 5)
	s.promoteAll()
	s.gives("v2")
}

// Deleting the Rollout goes on natively.
func statefulDeleted(t *testing.T) {
	t.Parallel()
	s := startStateful(t, true, nil, with(manual("20%"), "20%"), manual("60%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.rollout}}
	if err := here.client.Delete(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s.until("all pods run v2", s.runsPods(versions{"v2": 5}))
	s.stands(0, "v2")
	s.until("nothing is left beside it", s.alone)
}

// With OnDelete nothing is held, nothing is deleted, and the Rollout says so.
func statefulOnDelete(t *testing.T) {
	t.Parallel()
	s := startStateful(t, false, func(set *appsv1.StatefulSet) {
		set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	}, manual("20%"), manual("100%"))
	s.until("the Rollout says what it needs", s.says("OnDelete", "set RollingUpdate"))
	s.ships("v2")
	s.until("its controller has seen v2", s.runsPods(versions{"v1": 5}))
	s.stays("no pod is replaced", s.runsPods(versions{"v1": 5}))
	s.change(`{"spec":{"updateStrategy":{"type":"RollingUpdate"},"template":{"spec":{"containers":[{"name":"web","image":"` + image("v1") + `"}]}}}}`)
	s.until("the Rollout is Healthy", s.healthy)
}

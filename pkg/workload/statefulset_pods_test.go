// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestOrdinals checks a StatefulSet whose ordinals do not begin at 0.
func TestOrdinals(t *testing.T) {
	s := newStatefulScene(t, "b", "AAAAB", setStatefulTarget(4, 1, false, ""))
	s.set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 7}
	for _, o := range s.owned {
		if p, ok := o.(*corev1.Pod); ok {
			p.Name = fmt.Sprintf("db-%d", ordinalOf(p)+7)
		}
	}
	if w := statefulSet.Observe(s.set, s.owned, HoldFromRecords(s.set)); w.UpdatedReplicas != 1 || w.StableReplicas != 4 {
		t.Errorf("counts %d updated, %d stable", w.UpdatedReplicas, w.StableReplicas)
	}
}

// TestPartition checks that a waiting step allows no more pods of the new version than it has,
// whichever pods move. With a frozen partition, new pods get the stable version.
func TestPartition(t *testing.T) {
	for name, tc := range map[string]struct {
		pods, share string
		want        int32
	}{
		"as it was":                        {"AAAB", "1", 3},
		"the next share":                   {"AAAB", "50%", 2},
		"none":                             {"AAAA", "0", frozen},
		"grown by one, which is too many":  {"AAABB", "1", frozen},
		"its ordinals begin one later":     {"AABB", "1", frozen},
		"grown, and the share is below it": {"AAABAA", "1", frozen},
		"grown, and the share is larger":   {"AAABAA", "2", 5},
		"shrunk to none of them":           {"AA", "1", 1},
		"one of too many is stable again":  {"AAABA", "1", frozen},
		"all":                              {"AABB", "100%", 0},
		"a share of one pod":               {"A", "20%", frozen},
		"a number of one pod":              {"A", "1", frozen},
		"all of one pod":                   {"A", "100%", 0},
		"a number is never all":            {"AAB", "3", 1},
	} {
		s := newStatefulScene(t, "b", tc.pods, setStatefulTarget(3, 1, false, ""))
		if got := statefulSet.view(s.set, s.owned, HoldFromRecords(s.set)).partitionFor(planner.Target{Partition: intstr.Parse(tc.share)}, false); got != tc.want {
			t.Errorf("%s: %s has partition %d, want %d", name, tc.pods, got, tc.want)
		}
	}
}

// TestIsStuck checks that a pod that Kruise makes unready for an in-place update does not count as
// stuck.
func TestIsStuck(t *testing.T) {
	t.Parallel()
	pod := func(unready ...corev1.PodConditionType) *corev1.Pod {
		p := &corev1.Pod{}
		for _, c := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady, inPlaceReady} {
			status := corev1.ConditionTrue
			if slices.Contains(unready, c) {
				status = corev1.ConditionFalse
			}
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: status})
		}
		return p
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"ready":                               {pod(), false},
		"its containers are not":              {pod(corev1.PodReady, corev1.ContainersReady), true},
		"about to be updated":                 {pod(corev1.PodReady, inPlaceReady), false},
		"updated, to what does not get ready": {pod(corev1.PodReady, corev1.ContainersReady, inPlaceReady), true},
		"never seen":                          {&corev1.Pod{}, true},
	} {
		if got := isStuck(tc.pod); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// TestBlockedPodDeletion checks that the message names a deleted pod that finalizers keep, but no other deleted
// pod.
func TestBlockedPodDeletion(t *testing.T) {
	s, n := newStatefulScene(t, "a", "AAB"), newDaemonScene("a", "AAB")
	for kind, observe := range map[string]func() (*corev1.Pod, string){
		"StatefulSet": func() (*corev1.Pod, string) {
			return s.owned[len(s.owned)-1].(*corev1.Pod), statefulSet.Observe(s.set, s.owned, HoldFromRecords(s.set)).DeletionBlocked
		},
		"DaemonSet": func() (*corev1.Pod, string) {
			return n.pod(2), daemonSet.Observe(n.set, n.owned, HoldFromRecords(n.set)).DeletionBlocked
		},
	} {
		t.Run(kind, func(t *testing.T) {
			pod, _ := observe()
			pod.Finalizers = []string{"example.com/keep"}
			if _, says := observe(); says != "" {
				t.Errorf("says %q of a pod that runs", says)
			}
			pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			if _, says := observe(); !strings.Contains(says, pod.Name) || !strings.Contains(says, "example.com/keep") {
				t.Errorf("says %q", says)
			}
			pod.Finalizers = nil
			if _, says := observe(); says != "" {
				t.Errorf("says %q of a pod that goes", says)
			}
		})
	}
}

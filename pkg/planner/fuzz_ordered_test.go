// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"flag"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Schedules of workloads whose own controller creates and deletes the pods.

// createStatefulSet creates a StatefulSet and its Rollout.
func (s *schedule) createStatefulSet() {
	a := app{
		kind: kindStatefulSet, name: app0, image: "v1", replicas: pick[int32](s, 1, 2, 3, 4, 5, 6, 10),
		unavail: pick(s, "1", "1", "2", "25%"), history: pick[int32](s, 10, 2, 1, 0), parallel: pick(s, false, false, true),
	}
	s.plan = pick(s, plans...)()
	s.podsMayFail = pick(s, false, false, true)
	traffic := pick(s, true, false)
	s.now = clockStart.Add(-time.Hour)
	s.createWorkload(a)
	s.runUntilIdle()
	s.now = clockStart
	if traffic {
		s.createService(app0)
		s.createIngress(app0, app0)
		s.plan.TrafficRoutings = ingressOf(app0, pick(s, 0, 3*time.Second))
	}
	if seconds := pick[int32](s, 0, 5, 60, math.MaxInt32); seconds > 0 {
		s.plan.ProgressDeadlineSeconds = &seconds
	}
	s.createRollout(app0, s.plan, false)
}

// advanceOnePod runs the kubelet for one pod, or makes the pod fail.
func (s *schedule) advanceOnePod(p *corev1.Pod, b byte) {
	s.runAs("pods", func() error {
		if s.podsMayFail && b%8 == 3 && !isUnavailable(p) {
			s.check.excusesPodFailures = true
			setReady(s.store, p, false)
			return nil
		}
		kubelet(s.store, p)
		return nil
	})
}

var orderedSchedules = flag.Int("ordered", 100, "how many random schedules of a StatefulSet to play")

// TestStatefulSetSchedules plays random schedules of a StatefulSet.
func TestStatefulSetSchedules(t *testing.T) {
	playSchedules(t, (*schedule).createStatefulSet, *orderedSchedules)
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

func (s *story) crash(c command) {
	d := &plannedCrash{what: acting, each: c.has("each")}
	if c.has("before=commit") {
		d.what = committing
	}
	s.w.crashes[c.words[1]] = d
}

func (s *story) pass(c command) {
	switch name := c.words[2]; c.words[1] {
	case "rollout":
		s.w.rolloutPass(name)
	case "batch":
		s.w.batchPass(name)
	case "routing":
		s.w.routingPass(name)
	case "sizes":
		for _, d := range listOf[*appsv1.Deployment](s.w.store.objects) {
			if d.Name == name || d.Labels[rollouts.LabelCanaryDeployment] == name {
				s.w.sizePass(d.Name) // and the canary Deployment
			}
		}
	case "kube":
		s.w.syncNatives()
	case "pods":
		s.w.runKubelets()
	default:
		s.Fatalf("nobody is called %q", c.words[1])
	}
}

// fail makes ready pods of an image unready.
func (s *story) fail(c command) {
	s.w.runAs("pods", func() error {
		for _, rs := range listOf[*appsv1.ReplicaSet](s.w.store.objects) {
			if imageOfSet(rs) == c.words[1] {
				makePodsReady(s.w.store, rs, -s.number(c.get("pods", "1")))
			}
		}
		n := s.number(c.get("pods", "1"))
		for _, p := range slices.Backward(podsIn(s.w.store.objects)) {
			if podTag(p) == c.words[1] && n != 0 && isReady(p) == (n > 0) {
				setReady(s.w.store, p, n < 0)
				n -= max(min(n, 1), -1)
			}
		}
		return nil
	})
}

// kill restarts the containers of all pods of a version several times with reason OOMKilled.
func (s *story) kill(c command) {
	s.w.runAs("pods", func() error {
		for _, p := range podsIn(s.w.store.objects) {
			if podTag(p) != c.words[1] {
				continue
			}
			next := clone(p)
			next.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "main", RestartCount: s.number(c.get("times", "1")),
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: 137, Reason: "OOMKilled", FinishedAt: metav1.NewTime(s.w.now),
				}},
			}}
			if err := s.w.store.updateStatus(next); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *story) start(c command) {
	delete(s.w.store.unready, c.words[1])
	s.fail(command{words: append(c.words, "pods=-1")})
	s.w.store.unready[c.words[1]] = true
}

// settle runs the world until nothing changes, and prints what it waits for.
func (s *story) settle() {
	wait, ok := s.w.runUntilIdle()
	if !ok {
		s.Fatalf("no rest after %d rounds:\n%s", maxRounds, s.t.out.String())
	}
	for _, r := range listOf[*rollouts.Rollout](s.w.store.objects) {
		message := r.Status.Message
		if wait > 0 {
			message += ", for " + wait.String()
		}
		s.t.printLine("idle", "%s", message)
	}
}

func (s *story) advance(c command) {
	s.w.now = s.w.now.Add(s.duration(c.words[1]))
}

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

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// startGreen is an application in a CloneSet of five pods that is released
// blue-green: all pods first, then half of the requests, then all of them.
func startGreen(t *testing.T, steps ...v1beta1.Step) *cloned {
	t.Helper()
	if steps == nil {
		steps = []v1beta1.Step{with(manual("100%"), "0%"), with(manual("100%"), "50%"), with(manual("100%"), "100%")}
	}
	s := startCloned(t, true, map[string]any{"maxUnavailable": int64(0), "maxSurge": int64(1)}, func(r *v1beta1.Rollout) {
		release := r.Spec.Strategy.Canary.Release
		release.Steps = steps
		r.Spec.Strategy = v1beta1.Strategy{BlueGreen: &v1beta1.BlueGreenStrategy{Release: release}}
	})
	s.guard.atLeast(5)
	return s.called("one")
}

// greens waits at a step, and wants pods of v2 beside five of v1, which Services
// and the Rollout tell from each other.
func (s *cloned) greens(step int32, updated int64, share, weight string) {
	s.t.Helper()
	s.until(fmt.Sprintf("step %d waits", step), s.green(step))
	s.sees(s.counts(5+updated, updated))
	set := s.stands(int64(0), "v2")
	s.surges(share)
	r, err := s.stored(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	g := r.Status.BlueGreen
	if int64(g.UpdatedReplicas) != updated || int64(g.UpdatedReadyReplicas) != updated {
		s.t.Errorf("step %d: the Rollout counts %d, %d ready; want %d", step, g.UpdatedReplicas, g.UpdatedReadyReplicas, updated)
	}
	s.knows(g, hashOf(set, "updateRevision"))
	s.sees(s.weight(weight))
	s.sees(s.serves(name, versions{"v1": 5}))
	s.sees(s.serves(name+"-canary", versions{"v2": int32(updated)})) //nolint:gosec // a few
}

// knows wants the Rollout to name the revisions.
func (s *cloned) knows(g *v1beta1.BlueGreenStatus, hash string) {
	s.t.Helper()
	if stable := hashOf(s.was, "currentRevision"); g.StableRevision != stable || g.UpdatedRevision != hash || g.PodTemplateHash != hash {
		s.t.Errorf("stable %s, new %s of %s; want %s, %s", g.StableRevision, g.UpdatedRevision, g.PodTemplateHash, stable, hash)
	}
}

// surges wants the CloneSet to be set up for a share of new pods.
func (s *cloned) surges(share string) {
	s.t.Helper()
	set := s.set()
	for field, want := range map[string]any{"paused": nil, "maxSurge": share, "maxUnavailable": int64(0)} {
		if got := of(set, "spec", "updateStrategy", field); got != want && (field != "paused" || got != false) {
			s.t.Errorf("%s is %v, want %v", field, got, want)
		}
	}
	if got := of(set, "spec", "minReadySeconds"); got != int64(2147483646) {
		s.t.Errorf("pods have to be ready for %v s", got)
	}
}

// counts wants Kruise to count so many pods, and how many of them are new.
func (s *cloned) counts(all, updated int64) func(context.Context) error {
	return func(ctx context.Context) error {
		set := s.set()
		if of(set, "status", "observedGeneration") != set.GetGeneration() || of(set, "status", "replicas") != all || of(set, "status", "readyReplicas") != all ||
			of(set, "status", "updatedReplicas") != updated || of(set, "status", "updatedReadyReplicas") != updated {
			return fmt.Errorf("want %d new of %d: %v", updated, all, set.Object["status"])
		}
		return ctx.Err()
	}
}

// Case 42: all pods, half of the requests, all of them; then the old pods go. No
// autoscaler acts meanwhile.
func greenToTheEnd(t *testing.T) {
	t.Parallel()
	s := startGreen(t)
	s.scales()
	s.ships("v2")
	s.greens(1, 5, "100%", "")
	s.sees(s.scaled(name + "-DisableByRollout"))
	s.sees(s.labelled("one", map[string]int{"1": 5}))
	s.promote(1)
	s.greens(2, 5, "100%", "50")
	s.loses("v2")
	s.greens(2, 5, "100%", "50")
	s.promote(2)
	s.greens(3, 5, "100%", "100")
	s.promote(3)
	s.gives("v2")
	s.sees(s.scaled(name))
}

// loses takes a pod, and waits until Kruise has made another one.
func (s *cloned) loses(version string) {
	s.t.Helper()
	pods, err := s.pods(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	there := func(p corev1.Pod) bool { return versionOf(&p.Spec) == version }
	lost := pods[slices.IndexFunc(pods, there)]
	if err := here.client.Delete(s.t.Context(), &lost); err != nil {
		s.t.Fatal(err)
	}
	s.until("another one is there", func(ctx context.Context) error {
		now, err := s.pods(ctx)
		if again := func(p corev1.Pod) bool { return p.UID == lost.UID }; err == nil && (len(now) != len(pods) || slices.ContainsFunc(now, again)) {
			err = fmt.Errorf("%d pods are there, of %d", len(now), len(pods))
		}
		return err
	})
	s.until("it is ready", s.runsPods(versions{"v1": 5, "v2": 5}))
	s.until("the Rollout counts it", s.serving(5))
	// Weir named stable pods to delete until the new pod was there, and removes that list now.
	s.until("Kruise has seen the last change", s.counts(10, 5))
}

// serving wants the Rollout to count so many new pods as ready.
func (s *cloned) serving(n int32) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := s.stored(ctx)
		if err == nil && r.Status.BlueGreen.UpdatedReadyReplicas != n {
			err = fmt.Errorf("it counts %d", r.Status.BlueGreen.UpdatedReadyReplicas)
		}
		return err
	}
}

// scales makes an autoscaler of the CloneSet.
func (s *cloned) scales() {
	s.t.Helper()
	h := s.newScaler()
	h.Spec.ScaleTargetRef.APIVersion, h.Spec.ScaleTargetRef.Kind = "apps.kruise.io/v1alpha1", "CloneSet"
	s.create(h)
}

// Case 43: back in steps, then back to the earlier version.
func greenBack(t *testing.T) {
	t.Parallel()
	s := startGreen(t)
	s.ships("v2")
	s.greens(1, 5, "100%", "")
	s.promote(1)
	s.greens(2, 5, "100%", "50")
	s.promote(2)
	s.greens(3, 5, "100%", "100")
	s.post(here.admin, "jump", `{"step":2}`, http.StatusCreated)
	s.greens(2, 5, "100%", "50")
	s.post(here.admin, "jump", `{"step":1}`, http.StatusCreated)
	s.greens(1, 5, "100%", "0")
	s.sees(s.labelled("one", map[string]int{"1": 5}))
	s.ships("v1")
	s.gives("v1")
	s.sees(s.counts(5, 5))
	s.sees(s.labelled("one", map[string]int{}))
}

// Case 44: there is no room for a third version, and no pod goes for it. The second
// may come back as it was, and the first ends it all: no pod of it was ever marked
// to be replaced.
func greenThird(t *testing.T) {
	t.Parallel()
	s := startGreen(t)
	s.ships("v2")
	s.greens(1, 5, "100%", "")
	s.promote(1)
	s.greens(2, 5, "100%", "50")
	hash, was := hashOf(s.set(), "updateRevision"), s.uids()
	s.guard.atMost("v3", 0)
	s.ships("v3")
	s.until("v3 is refused", s.says("please rollback first"))
	s.until("Kruise has seen it", s.counts(10, 0))
	s.stays("nothing moves", s.counts(10, 0))
	s.stands("100%", "v3")
	s.surges("100%")
	r, err := s.stored(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.knows(r.Status.BlueGreen, hash)
	s.ships("v2")
	s.until("five are new again", s.counts(10, 5))
	s.until("the partition is given up", func(context.Context) error {
		if p := of(s.set(), "spec", "updateStrategy", "partition"); p != int64(0) {
			return fmt.Errorf("it is %v", p)
		}
		return nil
	})
	s.until("Kruise has seen that", s.counts(10, 5))
	s.greens(2, 5, "100%", "50")
	s.same("the pods", was, s.uids())
	s.sees(s.unmarked)
	s.ships("v1")
	s.gives("v1")
}

// unmarked wants no pod to be one that Kruise is to replace.
func (s *cloned) unmarked(ctx context.Context) error {
	pods, err := s.pods(ctx)
	for i := range pods {
		if pods[i].Labels["apps.kruise.io/specified-delete"] != "" {
			err = errors.Join(err, fmt.Errorf("%s is to be replaced", pods[i].Name))
		}
	}
	return err
}

// Cases 45 and 46: the Rollout leaves when all pods are there. Everything is given
// back, all new pods are there at once, and the old ones go.
func greenLeft(leave func(*cloned)) func(*testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		s := startGreen(t)
		s.scales()
		s.ships("v2")
		s.greens(1, 5, "100%", "")
		s.promote(1)
		s.greens(2, 5, "100%", "50")
		leave(s)
		if got := of(s.set(), "status", "updatedReplicas"); got != int64(5) {
			t.Errorf("%v are new", got)
		}
		s.isAs("v2")
		s.sees(s.scaled(name))
	}
}

// An abort takes requests, then new pods, and keeps the template, held; then it is
// tried again, and rolled back.
func greenAborted(t *testing.T) {
	t.Parallel()
	s := startGreen(t, with(manual("50%"), "0%"), with(manual("100%"), "50%"))
	s.scales()
	s.ships("v2")
	s.greens(1, 3, "50%", "")
	s.promote(1)
	s.greens(2, 5, "100%", "50")
	s.abort()
	s.stands("100%", "v2")
	s.sees(s.runsPods(versions{"v1": 5}))
	s.sees(s.serves(name, versions{"v1": 5}))
	s.sees(s.weight(""))
	s.until("the autoscaler is back", s.scaled(name))
	s.post(here.admin, "retry", "", http.StatusCreated)
	s.greens(1, 3, "50%", "")
	s.sees(s.scaled(name + "-DisableByRollout"))
	s.post(here.admin, "rollback", "", http.StatusCreated)
	s.gives("v1")
	s.until("the autoscaler is back", s.scaled(name))
}

// What a larger size adds is new; what a smaller one takes goes in the end, since
// no ready pod may. Size 0 takes all, and the pods that come back are of v1 first.
func greenScaled(t *testing.T) {
	t.Parallel()
	s := startGreen(t, with(manual("50%"), "0%"), with(manual("100%"), "100%"))
	s.ships("v2")
	s.greens(1, 3, "50%", "")
	s.change(`{"spec":{"replicas":7}}`)
	s.until("new pods come", s.counts(11, 6))
	s.until("the step waits", s.green(1))
	s.change(`{"spec":{"replicas":5}}`)
	s.until("the step waits", s.green(1))
	s.stays("no pod goes", func(ctx context.Context) error {
		pods, err := s.pods(ctx)
		if err == nil && len(pods) != 11 {
			err = fmt.Errorf("there are %d", len(pods))
		}
		return err
	})
	s.guard.atLeast(0)
	s.change(`{"spec":{"replicas":0}}`)
	s.until("no pod is left", s.runsPods(versions{}))
	s.guard.atMost("v2", 3)
	s.change(`{"spec":{"replicas":5}}`)
	s.until("pods of both versions come", s.runsPods(versions{"v1": 5, "v2": 3}))
	s.until("the Rollout counts them", s.serving(3))
	s.greens(1, 3, "50%", "")
	s.guard.atLeast(5)
	s.guard.atMost("v2", 5)
	s.promoteAll()
	s.gives("v2")
}

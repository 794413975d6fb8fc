// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && soak

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// startRelease releases a version. Only its first step is allowed so far.
func (s *soakUser) startRelease(version string) {
	s.t.Helper()
	if version == s.live {
		return
	}
	s.accepted, s.allowed = nil, 0
	was := s.live
	s.live = version
	if version == s.stable {
		s.retry(func() error { return s.setVersion(version) })
		s.eventually("the release is cancelled", s.isHealthy)
		return
	}
	s.allowStep(1)
	before := s.canaryRevision()
	s.retry(func() error { return s.setVersion(version) })
	s.eventually("the release of "+version+" has begun", func(context.Context) error {
		if s.canaryRevision() == before {
			return errors.New("the Rollout is about another revision")
		}
		return nil
	})
	// A version that cannot start must not replace pods that are needed.
	if was != s.stable && version != "failed" {
		s.eventually("the pods of the previous version are gone", s.hasNoPodsOf(was))
		s.guard.atMost(was, 0)
	}
}

// canaryRevision returns the revision in the status of the Rollout.
func (s *soakUser) canaryRevision() string {
	s.t.Helper()
	var r *v1beta1.Rollout
	s.retry(func() (err error) {
		r, err = s.getRollout(s.t.Context())
		return err
	})
	return r.Status.Canary.CanaryRevision
}

func (s *soakUser) setVersion(version string) error {
	return s.patchDeployment(fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, image(version)))
}

// hasNoPodsOf returns a check that there are no pods of a version.
func (s *soakUser) hasNoPodsOf(version string) func(context.Context) error {
	return func(ctx context.Context) error {
		sets, err := s.replicaSets(ctx)
		for i := range sets {
			if rs := &sets[i]; versionOf(&rs.Spec.Template.Spec) == version && rs.Status.Replicas > 0 {
				return fmt.Errorf("%s has %d pods", rs.Name, rs.Status.Replicas)
			}
		}
		return err
	}
}

// allowStep raises the pod limit of the live version to that of a step, if it is higher.
func (s *soakUser) allowStep(step int32) {
	s.t.Helper()
	size := s.plan.steps[step-1].Replicas
	n, err := intstr.GetScaledValueFromIntOrPercent(size, int(s.plan.replicas), true)
	if err != nil {
		s.t.Fatal(err)
	}
	s.allowed = max(s.allowed, int32(n))
	s.guard.atMost(s.live, s.allowed)
}

// scaleAndAwait scales, and waits for all pods that can become ready.
func (s *soakUser) scaleAndAwait(replicas int32) {
	s.t.Helper()
	s.guard.atLeast(max(0, min(replicas, s.plan.replicas)-s.plan.unavailable))
	s.plan.replicas = replicas
	for step := range s.plan.steps {
		// A percentage of more pods is more pods.
		if n, err := intstr.GetScaledValueFromIntOrPercent(s.plan.steps[step].Replicas, int(replicas), true); err == nil && s.mayHaveReached(step+1) {
			s.allowed = max(s.allowed, int32(n))
		}
	}
	if s.live != s.stable && s.allowed > 0 {
		s.guard.raiseLimit(s.live, s.allowed)
	}
	s.retry(func() error { return s.patchDeployment(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)) })
	s.eventually("enough pods are ready", func(ctx context.Context) error {
		d, err := s.getDeployment(ctx)
		if err == nil && (d.Status.ReadyReplicas < replicas-s.plan.unavailable || (replicas == 0 && d.Status.Replicas > 0)) {
			err = fmt.Errorf("%d of %d pods are ready", d.Status.ReadyReplicas, replicas)
		}
		return err
	})
	s.eventually("the guard has observed the pods", func(context.Context) error { return s.guard.whenReady(max(0, replicas-s.plan.unavailable)) })
}

// toZeroAndBack scales to zero, and scales up only when Weir has deleted the empty ReplicaSets that
// are younger than the stable one. The native controller would give all pods to the youngest, which
// docs/styles.md lists as a known limit.
func (s *soakUser) toZeroAndBack() {
	s.t.Helper()
	s.scaleAndAwait(0)
	s.eventually("no younger ReplicaSet is left", func(ctx context.Context) error {
		sets, err := s.replicaSets(ctx)
		if err != nil {
			return err
		}
		created := map[string]time.Time{}
		for i := range sets {
			created[versionOf(&sets[i].Spec.Template.Spec)] = sets[i].CreationTimestamp.Time
		}
		for version, at := range created {
			if version != s.stable && !at.Before(created[s.stable]) {
				return fmt.Errorf("the ReplicaSet of %s is younger than that of %s", version, s.stable)
			}
		}
		return nil
	})
	s.scaleAndAwait(6)
}

// mayHaveReached reports whether the release may have come to a step.
func (s *soakUser) mayHaveReached(step int) bool {
	r, err := s.getRollout(s.t.Context())
	return err != nil || (r.Status.Canary != nil && int(r.Status.Canary.CurrentStepIndex) >= step)
}

// sendVerb sends a verb until it is answered. The requestID makes retries safe.
func (s *soakUser) sendVerb(verb, fields string) {
	s.t.Helper()
	s.number++
	id := fmt.Sprintf("%s-%d", verb, s.number)
	s.retry(func() error {
		got, err := testEnv.admin.post(s.t.Context(), s.app, verb, fmt.Sprintf(`{"requestID":%q,%s}`, id, fields))
		switch {
		case err != nil:
			return err
		case got.code == http.StatusCreated:
			s.accepted = append(s.accepted, id)
		case got.code >= http.StatusInternalServerError || got.code == http.StatusNotFound || got.code == http.StatusForbidden:
			return fmt.Errorf("%s", got)
		default:
			s.t.Errorf("%s in a state that allows it: %s", verb, got)
		}
		return nil
	})
}

func (s *soakUser) setPaused(paused bool) error {
	r := &v1beta1.Rollout{}
	r.Namespace, r.Name = s.namespace, s.rollout
	body := fmt.Sprintf(`{"spec":{"strategy":{"paused":%t}}}`, paused)
	if err := testEnv.client.Patch(s.t.Context(), r, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		return err
	}
	return s.await("the field has been written", func(ctx context.Context) error {
		r, err := s.getRollout(ctx)
		if err == nil && (reason(r) == "Paused") != paused {
			err = fmt.Errorf("paused should be %t: %s", paused, describe(r))
		}
		return err
	})
}

// retry repeats a request until it succeeds, because a crash can make it fail.
func (s *soakUser) retry(try func() error) {
	s.t.Helper()
	s.eventually("the request is accepted", func(context.Context) error { return try() })
}

// finish releases a last version until its end.
func (s *soakUser) finish() {
	s.t.Helper()
	s.retry(func() error {
		r, err := s.getRollout(s.t.Context())
		if err == nil && r.Spec.Strategy.Paused != nil && *r.Spec.Strategy.Paused {
			err = s.setPaused(false)
		}
		return err
	})
	s.startRelease("last")
	s.awaitIdle()
	s.allowStep(int32(len(s.plan.steps)))
	s.sendVerb("promote", `"full":true`)
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.eventually("all pods run the last version", s.runs(versions{"last": s.plan.replicas}))
	s.checkRestored(workloadTypeLabel)
}

// raiseLimit raises the pod limit of a version, if it has a lower one.
func (g *availabilityGuard) raiseLimit(version string, n int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if limit, ok := g.limits[version]; ok && limit > 0 && limit < n {
		g.limits = maps.Clone(g.limits)
		g.limits[version] = n
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
	"github.com/weir-rollouts/weir/test/patience"
)

// TestKill kills both processes at every stage of a release, of its abort and of its end, and once
// more just after each decision. The release continues where it was: every step pauses in turn, and
// no approval is lost. These tests do not run in parallel with others, which need the server.
func TestKill(t *testing.T) {
	for round := range shortOrFull(1, 2) {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			a := start(t, defaultPlan())
			k := newKiller(a, round)
			a.release("v2")
			k.follow(k.approveAndKill, a.released("v2"))
			a.checkNow(a.hasDecisions("promote 1 admin applied", "promote 2 admin applied"))
			a.checkRestored(workloadTypeLabel)
			t.Logf("killed %d times: %v", k.kills, k.stages)
		})
	}
}

// released returns a check that the release of a version is complete.
func (a *app) released(version string) func(context.Context) error {
	return func(ctx context.Context) error {
		return errors.Join(a.isHealthy(ctx), a.runs(versions{version: a.plan.replicas})(ctx))
	}
}

// processKiller kills both processes at each stage that it has not observed before.
type processKiller struct {
	app    *app
	round  int
	kills  int
	seen   map[string]bool
	stages []string
	// approved is the last step that was approved.
	approved int32
}

func newKiller(a *app, round int) *processKiller {
	return &processKiller{app: a, round: round, seen: map[string]bool{}}
}

// follow kills the processes at each stage until the end condition is met. It calls waiting for
// each paused step.
func (k *processKiller) follow(waiting func(step int32), end func(context.Context) error) {
	k.app.t.Helper()
	ctx, cancel := patience.Context(k.app.t.Context(), 2*patience.Long)
	defer cancel()
	for ctx.Err() == nil {
		k.untilNext(ctx, waiting)
		if end(ctx) == nil {
			return
		}
	}
	k.app.t.Fatalf("the release does not end; observed stages: %v", k.stages)
}

// untilNext watches until it observes a new stage, or the watch ends, and kills the processes.
func (k *processKiller) untilNext(ctx context.Context, waiting func(int32)) {
	k.app.t.Helper()
	// A stage that lasts causes no event, so the watch ends after a while.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	events, err := testEnv.client.Watch(ctx, &v1beta1.RolloutList{}, client.InNamespace(k.app.namespace))
	if err != nil {
		k.app.eventually("the server answers", func(ctx context.Context) error {
			_, err := k.app.getRollout(ctx)
			return err
		})
		return
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		r, ok := e.Object.(*v1beta1.Rollout)
		if !ok {
			continue
		}
		stage := stageOf(r)
		if k.seen[stage] {
			continue
		}
		k.seen[stage] = true
		k.stages = append(k.stages, stage)
		k.kill()
		if c := r.Status.Canary; waiting != nil && reason(r) == "InRolling" && c.State == "StepPaused" {
			waiting(c.CurrentStepIndex)
		}
		return
	}
}

func stageOf(r *v1beta1.Rollout) string {
	s := fmt.Sprintf("%s/%s", r.Status.Phase, reason(r))
	if c := r.Status.Canary; c != nil {
		s += fmt.Sprintf("/%d/%s/%s", c.CurrentStepIndex, c.State, c.FinalisingStep)
	}
	return s
}

// approveAndKill checks that steps pause one after the other, and kills the processes again when
// the approval is stored.
func (k *processKiller) approveAndKill(step int32) {
	a := k.app
	a.t.Helper()
	if step != k.approved+1 {
		a.t.Fatalf("after step %d, step %d waits", k.approved, step)
	}
	a.checkNow(a.waitsAtStep(step))
	a.eventually("the pods are those of the step", a.runs(map[int32]versions{1: {"v1": 4, "v2": 2}, 2: {"v1": 3, "v2": 3}}[step]))
	a.eventually("the server answers", func(ctx context.Context) error {
		_, err := a.getRollout(ctx)
		return err
	})
	a.promote(step)
	k.approved = step
	k.kill()
}

// kill kills both processes at once, and starts both again.
func (k *processKiller) kill() {
	k.app.t.Helper()
	victims := []string{cluster.WeirController, cluster.WeirAPIServer}
	if (k.kills+k.round)%2 == 1 {
		victims[0], victims[1] = victims[1], victims[0]
	}
	for _, victim := range victims {
		if err := testEnv.cluster.Kill(victim); err != nil {
			k.app.t.Fatal(err)
		}
	}
	for _, name := range []string{cluster.WeirAPIServer, cluster.WeirController} {
		if err := testEnv.cluster.Start(name); err != nil {
			k.app.t.Fatal(err)
		}
	}
	k.kills++
}

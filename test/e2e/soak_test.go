// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && soak

package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

var (
	soakTime = flag.Duration("soak.time", 20*time.Minute, "how long users act and processes crash")
	soakApps = flag.Int("soak.apps", 6, "number of applications")
	soakSeed = flag.Uint64("soak.seed", 0, "random seed, to repeat an earlier run; 0 chooses a new one")
)

// TestSoak lets users take random actions while processes crash. At all times, no application has
// fewer ready pods than its owner's limits allow, no version has more pods than approved, no
// aborted version gets pods, and no decision is lost. At the end every application is released.
func TestSoak(t *testing.T) {
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to repeat the choices: -soak.seed=%d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), *soakTime)
	defer cancel()
	crashed := make(chan int, 1)
	go func() { crashed <- crashProcesses(ctx, t, rand.New(rand.NewPCG(seed, 0))) }()
	t.Run("apps", func(t *testing.T) {
		for i := range *soakApps {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				// With each of these sizes, the stable version has some pods at every step except
				// for the last. Without stable pods, the native controller would create new pods of
				// the other version before Weir can scale it down.
				p := defaultPlan()
				p.withTraffic = i%2 == 0
				p.steps = []v1beta1.Step{manualStep("20%"), manualStep("50%"), manualStep("100%")}
				if p.withTraffic {
					p.steps = []v1beta1.Step{withTraffic(manualStep("20%"), "20%"), withTraffic(manualStep("50%"), "50%"), withTraffic(manualStep("100%"), "100%")}
				}
				s := &soakUser{app: start(t, p), random: rand.New(rand.NewPCG(seed, uint64(i)+1)), stable: "v1", live: "v1"}
				s.soak(ctx)
				s.finish()
				t.Logf("moves: %v", s.moves)
			})
		}
	})
	cancel()
	t.Logf("%d crashes", <-crashed)
}

// crashProcesses kills or terminates a random process now and then, and starts it again.
func crashProcesses(ctx context.Context, t *testing.T, random *rand.Rand) int {
	victims := []string{cluster.WeirController, cluster.WeirAPIServer, cluster.WeirController, cluster.ControllerManager}
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return n
		case <-time.After(time.Duration(10+random.IntN(30)) * time.Second):
		}
		victim := victims[random.IntN(len(victims))]
		stop := []func(string) error{testEnv.cluster.Kill, testEnv.cluster.End}[random.IntN(2)]
		if err := stop(victim); err != nil {
			t.Errorf("ending %s: %v", victim, err)
			return n
		}
		if err := testEnv.cluster.Start(victim); err != nil {
			// On a busy machine a leader may also lose its lease and exit.
			t.Logf("starting %s: %.200v", victim, err)
			if err := testEnv.cluster.Start(cluster.WeirController); err != nil {
				t.Errorf("starting weir-controller: %v", err)
				return n
			}
		}
	}
}

// soakUser is the user of one application.
type soakUser struct {
	*app
	random *rand.Rand
	// stable is the version that serves when a release does not complete, and live the version of
	// the Deployment's template.
	stable, live string
	number       int
	// allowed is how many pods of the live version may exist so far.
	allowed int32
	// accepted are the decisions of this release that got the response 201.
	accepted []string
	moves    map[string]int
}

func (s *soakUser) soak(ctx context.Context) {
	s.t.Helper()
	s.moves = map[string]int{}
	for ctx.Err() == nil && !s.t.Failed() {
		r := s.awaitIdle()
		moves := s.possibleMoves(r)
		move := moves[s.random.IntN(len(moves))]
		s.moves[move]++
		s.doMove(move, r)
	}
}

// awaitIdle waits until the release needs a user to continue, and checks the recorded decisions.
func (s *soakUser) awaitIdle() *v1beta1.Rollout {
	s.t.Helper()
	var seen *v1beta1.Rollout
	s.eventually("the release waits for a user or is complete", func(ctx context.Context) error {
		r, err := s.getRollout(ctx)
		if err != nil {
			return err
		}
		seen = r
		return s.isIdle(ctx, r)
	})
	s.checkDecisions(seen)
	if seen.Status.Phase == v1beta1.PhaseHealthy && s.live != s.stable {
		s.stable = s.live
		s.guard.atMost(s.stable, 1<<20)
	}
	return seen
}

func (s *soakUser) isIdle(ctx context.Context, r *v1beta1.Rollout) error {
	d, err := s.getDeployment(ctx)
	if err != nil {
		return err
	}
	settled := !d.Spec.Paused && d.Status.ObservedGeneration == d.Generation
	if r.Status.Phase == v1beta1.PhaseHealthy && settled && s.live == versionOf(&d.Spec.Template.Spec) {
		return nil
	}
	if r.Status.Phase == v1beta1.PhaseProgressing && s.isWaiting(r) {
		return nil
	}
	return fmt.Errorf("the release is in progress: %s", describe(r))
}

// isWaiting reports whether the release waits for a user.
func (s *soakUser) isWaiting(r *v1beta1.Rollout) bool {
	switch reason(r) {
	case "Aborted", "Paused":
		return true
	case "InRolling":
		state := r.Status.Canary.State
		return state == "StepPaused" || (state == "StepUpgrade" && s.live == "failed")
	default:
		return false
	}
}

// checkDecisions checks that every accepted decision of the release is recorded.
func (s *soakUser) checkDecisions(r *v1beta1.Rollout) {
	s.t.Helper()
	record := map[string]bool{}
	for _, d := range r.Status.Decisions {
		record[d.RequestID] = true
	}
	for _, id := range s.accepted {
		if !record[id] {
			s.t.Fatalf("decision %s was accepted and is not recorded", id)
		}
	}
}

func (s *soakUser) possibleMoves(r *v1beta1.Rollout) []string {
	switch {
	case r.Status.Phase == v1beta1.PhaseHealthy:
		return []string{"release", "release", "release", "release bad", "scale"}
	case reason(r) == "Aborted":
		return []string{"release", "release", "cancel", "scale", "to zero and back", "kubectl rollout"}
	case reason(r) == "Paused":
		return []string{"resume", "resume", "abort", "scale"}
	case r.Status.Canary.State == "StepUpgrade":
		return []string{"abort", "abort", "release", "cancel"}
	default:
		return []string{"promote", "promote", "promote", "promote", "promote", "promote all", "abort", "abort", "release",
			"release bad", "cancel", "pause", "scale", "to zero and back", "kubectl rollout"}
	}
}

func (s *soakUser) doMove(move string, r *v1beta1.Rollout) {
	s.t.Helper()
	revision := fmt.Sprintf(`"revision":%q`, r.Status.Canary.CanaryRevision)
	step := r.Status.Canary.CurrentStepIndex
	map[string]func(){
		"release": func() {
			s.number++
			s.startRelease(fmt.Sprintf("v%d", s.number+1))
		},
		"release bad": func() { s.startRelease("failed") },
		"cancel":      func() { s.startRelease(s.stable) },
		"promote": func() {
			s.allowStep(step + 1)
			s.sendVerb("promote", fmt.Sprintf(`"expect":{"step":%d,%s}`, step, revision))
		},
		"promote all": func() {
			s.allowStep(int32(len(s.plan.steps)))
			s.sendVerb("promote", `"full":true,"expect":{`+revision+`}`)
		},
		"abort": func() {
			s.sendVerb("abort", `"expect":{`+revision+`}`)
			s.eventually("the release is aborted", s.isAborted)
			s.guard.atMost(s.live, 0)
			s.awaitPods(versions{s.stable: s.plan.replicas})
		},
		"pause":            func() { s.retry(func() error { return s.setPaused(true) }) },
		"resume":           func() { s.retry(func() error { return s.setPaused(false) }) },
		"scale":            func() { s.scaleAndAwait(int32(3 + s.random.IntN(7))) },
		"to zero and back": s.toZeroAndBack,
		"kubectl rollout": func() {
			testEnv.admin.kubectl(s.app, "rollout", "resume", "deployment/web")
			testEnv.admin.kubectl(s.app, "rollout", "undo", "deployment/web")
		},
	}[move]()
}

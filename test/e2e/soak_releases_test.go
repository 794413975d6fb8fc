// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && soak

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/patience"
)

var (
	soakReleases = flag.Int64("soak.releases", 50, "number of releases of all applications together")
	soakCrowd    = flag.Int("soak.crowd", 12, "number of applications that are released in parallel")
)

// TestSoakReleases runs many releases in parallel, in each style. Pods start slowly and sometimes
// fail, users take random actions, and processes are killed. A monitor checks all the time that pod
// counts stay within their bounds and that no step passes without a decision. Every release must
// end.
func TestSoakReleases(t *testing.T) {
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("to repeat the choices: -soak.seed=%d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), *soakTime)
	defer cancel()
	crashed := make(chan int, 1)
	go func() { crashed <- crashProcesses(ctx, t, rand.New(rand.NewPCG(seed, 0))) }()
	var begun atomic.Int64
	t.Run("apps", func(t *testing.T) {
		for i := range *soakCrowd {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				m := newCrowdMember(t, i, rand.New(rand.NewPCG(seed, uint64(i)+1)))
				t.Cleanup(m.monitor.stop)
				for ctx.Err() == nil && !t.Failed() && begun.Add(1) <= *soakReleases {
					m.release()
				}
				t.Logf("%s: %d releases, moves %v", m.kind, m.releases, m.moves)
			})
		}
	})
	cancel()
	t.Logf("%d releases, %d crashes", min(begun.Load(), *soakReleases), <-crashed)
}

// crowdMember is one of the applications, and its user.
type crowdMember struct {
	*app
	monitor *monitor
	random  *rand.Rand
	kind    string
	plans   [][]v1beta1.Step
	// stable is the version of a rollback, and live the version of the Deployment's template.
	stable, live string
	number       int
	releases     int
	moves        map[string]int
	// reached is the highest step that the user has allowed, of any plan. everyStep reports whether
	// no step needs an approval any more, and rolledBack whether Weir may set the template.
	reached int32
	// allowed are the steps whose pods the new version may have.
	allowed               []v1beta1.Step
	everyStep, rolledBack bool
}

func newCrowdMember(t *testing.T, i int, random *rand.Rand) *crowdMember {
	t.Helper()
	p := defaultPlan()
	kinds := []struct {
		name   string
		change func(*v1beta1.Rollout)
	}{
		{"partition", nil},
		{"canary", func(r *v1beta1.Rollout) { r.Spec.Strategy.Canary.EnableExtraWorkloadForCanary = new(true) }},
		{"blue-green", func(r *v1beta1.Rollout) {
			release := r.Spec.Strategy.Canary.Release
			r.Spec.Strategy = v1beta1.Strategy{BlueGreen: &v1beta1.BlueGreenStrategy{Release: release}}
		}},
	}
	kind := kinds[i%len(kinds)]
	limits := [][2]int32{{2, 1}, {1, 0}, {0, 1}, {3, 2}}[i/len(kinds)%4]
	p.replicas, p.surge, p.unavailable = int32(5+random.IntN(6)), limits[0], limits[1]
	p.withTraffic, p.customizeRollout = i%2 == 0, kind.change
	m := &crowdMember{random: random, kind: kind.name, stable: "v1", live: "v1", moves: map[string]int{}, plans: plansFor(p.withTraffic)}
	p.steps = m.plans[0]
	p.annotations = map[string]string{"test.weir/ready-within": "5s", "test.weir/flaky": "5s"}
	m.app = start(t, p)
	// The monitor knows the sizes more precisely than the guard.
	m.guard.atLeast(0)
	m.monitor = startMonitor(m.app)
	return m
}

// plansFor returns plans that the owner may replace with each other at any time.
func plansFor(routed bool) [][]v1beta1.Step {
	var plans [][]v1beta1.Step
	for _, shares := range [][]string{{"20%", "50%", "100%"}, {"1", "40%", "100%"}, {"50%", "60%", "100%"}, {"10%", "30%", "80%"}} {
		var steps []v1beta1.Step
		for _, share := range shares {
			s := manualStep(share)
			if routed && share != "1" {
				s = withTraffic(s, share)
			}
			steps = append(steps, s)
		}
		plans = append(plans, steps)
	}
	if routed {
		plans[1][0] = withTraffic(plans[1][0], "5%")
	}
	return plans
}

// release starts a release, disturbs it, and waits for its end.
func (m *crowdMember) release() {
	m.t.Helper()
	m.releases++
	m.everyStep, m.rolledBack, m.reached, m.allowed = false, false, 0, nil
	m.monitor.startRelease()
	m.allowStep(1)
	version := m.version()
	if m.random.IntN(8) == 0 {
		version = "failed"
	}
	m.trace("release %s over %s", version, m.stable)
	m.setVersion(version)
	for range m.random.IntN(6) {
		m.pause(4 * time.Second)
		if m.t.Failed() {
			return
		}
		m.randomMove()
	}
	m.pause(4 * time.Second)
	m.finish()
}

func (m *crowdMember) version() string {
	m.number++
	return fmt.Sprintf("v%d", m.number+1)
}

// trace adds an action of the user to the trace of the monitor.
func (m *crowdMember) trace(format string, args ...any) {
	m.monitor.mu.Lock()
	defer m.monitor.mu.Unlock()
	m.monitor.note("user: "+format, args...)
}

// pause waits for a random time.
func (m *crowdMember) pause(most time.Duration) {
	select {
	case <-m.t.Context().Done():
	case <-time.After(time.Duration(m.random.Int64N(int64(most)))):
	}
}

// finish sets a version whose pods can start, or the stable one, and waits for the end of the
// release.
func (m *crowdMember) finish() {
	m.t.Helper()
	if m.plan.replicas == 0 {
		m.resize(int32(5 + m.random.IntN(6)))
	}
	switch back := m.random.IntN(3) == 0; {
	case back, m.kind == "blue-green" && m.live == "failed":
		m.trace("finish by going back to %s", m.stable)
		m.setVersion(m.stable)
	case m.live == "failed":
		version := m.version()
		m.trace("finish with %s", version)
		m.setVersion(version)
	default:
		m.trace("finish with %s", m.live)
		m.setVersion(m.live)
	}
	var last error
	ctx, cancel := patience.Context(m.t.Context(), patience.Long)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = m.advance(ctx)
		return last == nil, nil
	})
	if err != nil {
		m.monitor.mu.Lock()
		m.monitor.fault("the release is stuck: %v", last)
		m.monitor.mu.Unlock()
		m.t.FailNow()
	}
	m.stable = m.live
	m.checkRestored(workloadTypeLabel)
}

// advance does what the release still waits for.
func (m *crowdMember) advance(ctx context.Context) error {
	r, err := m.getRollout(ctx)
	if err != nil {
		return errors.Join(err, m.ensureRollout())
	}
	if r.Spec.Disabled || r.Spec.Strategy.Paused != nil && *r.Spec.Strategy.Paused {
		return errors.Join(errors.New("the release made no progress"), m.patchRollout(`{"spec":{"disabled":false,"strategy":{"paused":false}}}`))
	}
	d, err := m.getDeployment(ctx)
	switch {
	case err != nil:
		return err
	case m.rolledBack && !d.Spec.Paused && versionOf(&d.Spec.Template.Spec) != m.live:
		m.setVersion(m.live)
	case r.Status.Phase == v1beta1.PhaseHealthy && !d.Spec.Paused && d.Status.ObservedGeneration == d.Generation:
		return errors.Join(m.runs(versions{m.live: m.plan.replicas})(ctx), m.hasNoReleaseObjects(ctx))
	case (r.Status.Phase == v1beta1.PhaseInitial || r.Status.Phase == v1beta1.PhaseHealthy) && d.Spec.Paused:
		// The release was aborted, so its owner retries it.
		return errors.Join(fmt.Errorf("left paused: %s", describe(r)), m.patchDeployment(`{"spec":{"paused":false}}`))
	case r.Status.Phase != v1beta1.PhaseProgressing:
		return fmt.Errorf("the release is in progress: %s", describe(r))
	case stuckReason(r) == "RevisionRefused":
		m.setVersion(m.stable)
	case reason(r) == "Aborted":
		m.sendVerb("retry", sentDecision{}, "")
	case reason(r) == "Paused":
		m.sendVerb("resume", sentDecision{}, "")
	case reason(r) == "InRolling" && r.Status.CurrentStepState == "StepPaused":
		m.promoteAll()
	}
	return fmt.Errorf("the release is in progress: %s", describe(r))
}

func stuckReason(r *v1beta1.Rollout) string {
	for _, c := range r.Status.Conditions {
		if c.Type == "Stalled" && c.Status == "True" {
			return c.Reason
		}
	}
	return ""
}

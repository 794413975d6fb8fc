// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/rollout"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// questions returns the measurements that the next pass over the Rollout requests.
func (s *story) questions() []planner.MeasurementRequest {
	s.Helper()
	o, err := rollout.Observe(quietContext, cachedCluster{s.w}, s.w.now, rollout.Options{}, types.NamespacedName{Name: "web"})
	if err != nil {
		s.Fatal(err)
	}
	return planner.Decide(o.Facts).MeasurementRequests
}

// TestInconclusiveChecksAreMeasured checks that an inconclusive check is still measured: its cause may be
// repaired, and a job may end late. The release then continues without a decision.
func TestInconclusiveChecksAreMeasured(t *testing.T) {
	t.Parallel()
	const ticket, smoke = " check name=ticket http=tickets gate at=BeforeTraffic", " check name=smoke job=web-smoke"
	for _, test := range []struct {
		name, check, answer, wait string
	}{
		{"an invalid gate", ticket, "ticket invalid", "2m"},
		{"a Service that is down", " check name=ticket http=tickets at=BeforeTraffic", "ticket down", "2h"},
		{"an invalid job before the traffic", smoke + " at=BeforeTraffic", "smoke noimage", "2m"},
		{"an invalid job of a step", smoke, "smoke noimage", "2m"},
		{"a job that does not end", smoke, "", "2h"},
		{"the same before the traffic", smoke + " at=BeforeTraffic", "", "2h"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			lines := []string{
				"deployment web replicas=10 image=v1 surge=1 unavailable=0", "service web", "ingress web",
				"rollout web traffic", " step 20% traffic=20% pause=0s", " step 100%", " analysis every=5s atLeast=10s", test.check, "settle",
			}
			if test.answer != "" {
				lines = append(lines, "answer "+test.answer)
			}
			s.run(append(lines, "update web image=v2", "settle", "advance "+test.wait, "settle"))
			if got := s.check().Result; got != rollouts.CheckInconclusive {
				t.Fatalf("the check is %s, want %s", got, rollouts.CheckInconclusive)
			}
			var passed []bool
			for _, q := range s.questions() {
				passed = append(passed, q.Passed)
			}
			if diff := cmp.Diff([]bool{false}, passed); diff != "" {
				t.Errorf("asks (-want +got):\n%s", diff)
			}
			name, _, _ := strings.Cut(strings.TrimPrefix(test.check, " check name="), " ")
			s.run([]string{"answer " + name + " good", "advance 30s", "settle"})
			if p := find[*rollouts.Rollout](s.w.store.objects, kindRollout, app0).Status.Active(); p.CurrentStepIndex == 1 && p.State != rollouts.StepPaused {
				t.Errorf("after the repair the release stays in step 1 in %s", p.State)
			}
		})
	}
}

// TestSharedCheckBeforeTraffic checks that a shared Check that counts requests is skipped before
// the traffic of a step, and that the status gives the reason. Validation cannot detect this,
// because the content of the Check is unknown when the plan is written.
func TestSharedCheckBeforeTraffic(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.run([]string{
		"deployment web replicas=10 image=v1 surge=1 unavailable=0", "service web", "ingress web", "share errors successRate=99%",
		"rollout web traffic", " step 20% traffic=20%", " step 100%", " analysis every=5s", " check name=errors use=errors at=BeforeTraffic", "settle",
		"update web image=v2", "settle",
	})
	const want = "nothing is judged: the check counts requests, and the new version gets none before the traffic of a step; leave out at: BeforeTraffic"
	if c := s.check(); c.Result != rollouts.CheckSkipped || c.Why != want {
		t.Errorf("the check is %s: %s\nwant %s: %s", c.Result, c.Why, rollouts.CheckSkipped, want)
	}
}

// check returns the first check in the status of the Rollout, except podsHealthy.
func (s *story) check() rollouts.CheckStatus {
	if a := find[*rollouts.Rollout](s.w.store.objects, kindRollout, app0).Status.Analysis; a != nil {
		for _, c := range a.Checks {
			if c.Name != "podsHealthy" {
				return c
			}
		}
	}
	return rollouts.CheckStatus{}
}

// TestMeasurementRequest checks that a request for a measurement contains the check as written in the
// plan. The shared Check that it uses is read again for each measurement, so an administrator keeps
// control of it.
func TestMeasurementRequest(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.run([]string{
		"deployment web replicas=4 image=v1", "rollout web", " step 50%", " step 100%", " analysis every=5s", " check name=errors successRate=99%",
		"settle", "requests new=100/0 old=100/0", "update web image=v2", "settle",
	})
	o, err := rollout.Observe(quietContext, cachedCluster{s.w}, s.w.now, rollout.Options{}, types.NamespacedName{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	uses := rollouts.Check{Name: "errors", Use: &rollouts.CheckRef{Kind: "ClusterCheck", Name: "errors"}}
	o.Facts.Rollout.Spec.Strategy.Canary.Analysis.Checks[0], o.Facts.Measured[0].Planned = uses, uses
	questions := planner.Decide(o.Facts).MeasurementRequests
	if len(questions) != 1 || questions[0].Check.Use == nil {
		t.Errorf("asks %+v", questions)
	}
}

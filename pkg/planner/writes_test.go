// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// tally counts the writes of a release by actor and kind.
type tally struct {
	*transcript
	writes map[string]int
	events *[]string
}

func (t tally) planned(r *rollouts.Rollout, d planner.Decision) {
	for _, e := range d.Events {
		*t.events = append(*t.events, e.Reason+": "+e.Message)
	}
	t.transcript.planned(r, d)
}

func (t tally) wrote(actor string, old, next object.Object) {
	if actor != "kube" && actor != "pods" {
		t.writes[actor+" "+string(keyOf(newer(old, next)).kind)]++
	}
	t.transcript.wrote(actor, old, next)
}

// acted counts pod labels. Each is one write.
func (t tally) acted(a planner.Effect) {
	if m, ok := unwrapAction(a).(planner.LabelPods); ok {
		t.writes["label"] += len(m.Labels)
	}
	t.transcript.acted(a)
}

// TestWritesOfARelease checks the exact number of writes and events of a release of ten pods in
// three steps without traffic. At most 20 writes concern Weir's own kinds (docs/performance.md).
// The order of a script is fixed, so no events are merged and each number is exact.
func TestWritesOfARelease(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	count := tally{s.t, map[string]int{}, new([]string)}
	s.w.observer = count
	s.run([]string{"deployment web replicas=10 image=v1", "rollout web", "  step 20%", "  step 50%", "  step 100%", "settle"})
	clear(count.writes)
	s.run([]string{"update web image=v2", "settle", "promote web user=alice", "settle", "promote web user=alice", "settle"})
	want := map[string]int{
		"rollout rollout": 7, "rollout batch": 9, "rollout history": 2, "user rollout": 2,
		"rollout deployment": 5, "rollout set": 1, "sizes set": 9, "user deployment": 1, "label": 10,
	}
	if diff := cmp.Diff(want, count.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	events := []string{
		"RolloutStarted: release of revision 65846c949b has started",
		"StepPaused: upgrade step(1) canary pods with new versions done; Rollout is in step(1/3), and you need manually confirm to enter the next step",
		"StepPaused: step(1) was approved by alice; upgrade step(2) canary pods with new versions done; " +
			"Rollout is in step(2/3), and you need manually confirm to enter the next step",
		"RolloutSucceeded: revision 65846c949b is released",
	}
	if diff := cmp.Diff(events, *count.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	own := 0
	for _, what := range []string{"rollout rollout", "rollout batch", "rollout history", "user rollout"} {
		own += count.writes[what]
	}
	if own > 20 {
		t.Errorf("%d writes of our own kinds", own)
	}
}

// checkWriteIsUseful checks the invariant "useful": a write changes something. A write without a
// change is useless work for the server.
func (c *invariants) checkWriteIsUseful(actor string, change object.Change) {
	if change.Base != nil && change.Want != nil && equal.DeepEqual(change.Base, change.Want) {
		c.violate("useful", "%s writes %v as it is", actor, keyOf(change.Want))
	}
}

// TestWritesOfMeasurement checks the writes of a measured step. The text of its checks changes in
// each window. The message and the results are stored in one write in each of the 20 windows. If
// the source does not answer, there is no such write. The other writes are those of any first step.
func TestWritesOfMeasurement(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]int{"up": 29, "down": 10} {
		s := newStory(t)
		count := tally{s.t, map[string]int{}, new([]string)}
		s.w.observer = count
		s.run([]string{
			"deployment web replicas=10 image=v1 surge=1 unavailable=0", "service web", "ingress web", "rollout web traffic", "  step 20% traffic=20%", "  step 100%",
			"  analysis every=60s atLeast=1200s within=1200s", "  check successRate=99%", "settle",
			"source " + source, "requests new=1/0 old=900/1",
		})
		clear(count.writes)
		s.run([]string{"update web image=v2", "settle"})
		if got := count.writes["rollout rollout"]; got != want {
			t.Errorf("source %s: %d writes of the Rollout, want %d", source, got, want)
		}
	}
}

// TestWritesOfReport checks that the message does not contain a check that only reports. Its stored
// text is at most five minutes old, which costs at most one write in five minutes of a pause.
func TestWritesOfReport(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	count := tally{s.t, map[string]int{}, new([]string)}
	s.w.observer = count
	s.run([]string{
		"deployment web replicas=10 image=v1 surge=1 unavailable=0", "service web", "ingress web", "rollout web traffic", "  step 20% traffic=20%", "  step 100%",
		"  analysis every=60s within=7200s", "  check successRate=99% onFail=Report", "settle",
		"requests new=1/0 old=900/1", "update web image=v2", "settle",
	})
	clear(count.writes)
	for range 60 {
		s.run([]string{"advance 1m", "pass rollout web"})
	}
	if got := count.writes["rollout rollout"]; got < 10 || got > 12 {
		t.Errorf("%d writes of the Rollout in an hour", got)
	}
	for _, r := range listOf[*rollouts.Rollout](s.w.store.objects) {
		if c := r.Status.Analysis.Checks; len(c) < 1 || !slices.ContainsFunc(c, func(c rollouts.CheckStatus) bool { return c.New != nil && c.New.Total > 50 }) {
			t.Errorf("after an hour the checks are stored as %+v", c)
		}
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// These are sequences of polls, and how the wait ends.
func TestJudge(t *testing.T) {
	t.Parallel()
	release := func(number int64, revision string) *v1beta1.ReleaseRef {
		return &v1beta1.ReleaseRef{Number: number, Revision: revision}
	}
	look := func(state, waits string, r *v1beta1.ReleaseRef) poll {
		return poll{why: v1beta1.RolloutWhy{State: state, WaitingFor: v1beta1.WaitingFor{For: waits}, Release: r}}
	}
	ended := func(outcome v1beta1.ReleaseOutcome, now *v1beta1.ReleaseRef) poll {
		s := look("AtRest", "", now)
		s.ended = &v1beta1.PastRelease{ReleaseRef: *release(7, "v8"), Outcome: outcome}
		return s
	}
	at := func(step int32, state v1beta1.StepState) poll {
		s := look("Moving", "pods", release(7, "v8"))
		s.rollout.Status.CurrentStepIndex, s.rollout.Status.CurrentStepState = step, state
		return s
	}
	unseen := look("AtRest", "", nil)
	unseen.why.Workload = v1beta1.WorkloadSeen{Generation: 3, Seen: 2}
	other := look("AtRest", "", nil)
	other.why.UID = "another"
	ofTwo := at(1, v1beta1.StepUpgrade)
	ofTwo.rollout.Spec.Strategy.BlueGreen = &v1beta1.BlueGreenStrategy{Release: v1beta1.Release{Steps: make([]v1beta1.Step, 2)}}
	moving := look("Moving", "pods", release(7, "v8"))
	cancelling := look("Ending", "pods", release(7, "v8"))
	cancelling.why.Workload = v1beta1.WorkloadSeen{Generation: 3, Seen: 2}
	const on = -1
	for name, c := range map[string]struct {
		conditions []string
		noPeople   bool
		looks      []poll
		want       int
	}{
		"nothing is released":            {[]string{"healthy"}, false, []poll{look("AtRest", "", nil)}, 0},
		"a new Rollout":                  {[]string{"healthy"}, false, []poll{look("AtRest", "workload", nil)}, on},
		"only an abort is waited for":    {[]string{"aborted"}, false, []poll{look("AtRest", "", nil)}, on},
		"a change that is not seen":      {[]string{"healthy"}, false, []poll{unseen}, on},
		"a release":                      {[]string{"healthy"}, false, []poll{moving}, on},
		"it succeeds":                    {[]string{"healthy"}, false, []poll{moving, ended("succeeded", nil)}, 0},
		"it succeeds, and another goes":  {[]string{"healthy"}, false, []poll{moving, ended("succeeded", release(8, "v9"))}, 0},
		"its record comes later":         {[]string{"healthy"}, false, []poll{moving, ended("", nil)}, on},
		"it has no record yet":           {[]string{"healthy"}, false, []poll{moving, look("AtRest", "", nil)}, on},
		"its record was deleted":         {[]string{"healthy"}, false, []poll{moving, look("Moving", "pods", release(8, "v9"))}, exitFailed},
		"its revision is the stable one": {[]string{"healthy"}, false, []poll{look("Ending", "pods", release(7, "v7")), ended("cancelled", nil)}, exitAborted},
		"an unseen change cancels it":    {[]string{"healthy"}, false, []poll{cancelling, ended("cancelled", nil)}, exitAborted},
		"an unseen change, no record":    {[]string{"healthy"}, false, []poll{cancelling, look("AtRest", "", nil)}, on},
		"an unseen change supersedes it": {[]string{"healthy"}, false, []poll{cancelling, look("Moving", "pods", release(8, "v9"))}, on},
		"it is cancelled":                {[]string{"healthy"}, false, []poll{moving, ended("cancelled", nil)}, exitAborted},
		"it is superseded":               {[]string{"healthy"}, false, []poll{moving, ended("superseded", release(8, "v9"))}, exitAborted},
		"it is aborting":                 {[]string{"healthy"}, false, []poll{moving, look("Aborting", "pods", release(7, "v8"))}, exitAborted},
		"it is aborted":                  {[]string{"healthy"}, false, []poll{look("Aborted", "decision", release(7, "v8"))}, exitAborted},
		"an abort is waited for":         {[]string{"aborted"}, false, []poll{look("Aborting", "pods", release(7, "v8"))}, on},
		"an abort comes":                 {[]string{"aborted"}, false, []poll{look("Aborted", "decision", release(7, "v8"))}, 0},
		"it was aborted and is over":     {[]string{"aborted"}, false, []poll{moving, ended("aborted", nil)}, 0},
		"it is stalled":                  {[]string{"healthy"}, false, []poll{look("Stalled", "pods", release(7, "v8"))}, exitStalled},
		"it waits for an approval":       {[]string{"healthy"}, false, []poll{look("Waiting", "approval", release(7, "v8"))}, on},
		"nobody will approve":            {[]string{"healthy"}, true, []poll{look("Waiting", "approval", release(7, "v8"))}, exitPerson},
		"time passes by itself":          {[]string{"healthy"}, true, []poll{look("Waiting", "time", release(7, "v8"))}, on},
		"a pause is as good":             {[]string{"healthy", "paused"}, true, []poll{look("Waiting", "approval", release(7, "v8"))}, 0},
		"a pause by the verb":            {[]string{"paused"}, false, []poll{look("Paused", "decision", release(7, "v8"))}, 0},
		"a failing step that waits":      {[]string{"paused"}, false, []poll{look("Failing", "approval", release(7, "v8"))}, 0},
		"a failing step that moves":      {[]string{"paused"}, true, []poll{look("Failing", "pods", release(7, "v8"))}, on},
		"pods of the step":               {[]string{"step=2"}, false, []poll{at(2, v1beta1.StepUpgrade)}, on},
		"the step is in place":           {[]string{"step=2"}, false, []poll{at(2, v1beta1.StepPaused)}, 0},
		"the plan has no such step":      {[]string{"healthy", "step=3"}, false, []poll{ofTwo}, exitFailed},
		"the plan has the step":          {[]string{"step=2"}, false, []poll{ofTwo}, on},
		"the step is over":               {[]string{"step=2"}, false, []poll{at(3, v1beta1.StepUpgrade)}, 0},
		"another Rollout of this name":   {[]string{"healthy"}, false, []poll{withUID(moving), other}, exitAborted},
		"an older step, then it is over": {[]string{"step=2"}, false, []poll{at(1, v1beta1.StepPaused), ended("succeeded", nil)}, 0},
	} {
		b := &waitedRelease{conditions: c.conditions, noPeople: c.noPeople}
		got := on
		for i := range c.looks {
			if got = on; got == on {
				b.bind(&c.looks[i].why)
				if end := b.decideEnd(&c.looks[i]); end != nil {
					got = end.code
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: exit %d, want %d", name, got, c.want)
		}
	}
}

func withUID(s poll) poll {
	s.why.UID = "one"
	return s
}

func TestCheckFor(t *testing.T) {
	t.Parallel()
	for condition, ok := range map[string]bool{
		"healthy": true, "paused": true, "aborted": true, "step=1": true, "step=0": false, "step=": false, "step": false, "done": false,
	} {
		if err := validateConditions([]string{condition}); (err == nil) != ok {
			t.Errorf("--for=%s: %v", condition, err)
		}
	}
}

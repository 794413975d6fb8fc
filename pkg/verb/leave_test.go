// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package verb_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// An approved step is left in the same write where the store alone decides how it continues.
func TestPromoteLeavesTheStep(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*rollouts.Rollout, *verb.Command)
		leaves bool
	}{
		"nothing else":        {change: func(*rollouts.Rollout, *verb.Command) {}, leaves: true},
		"in full":             {change: func(_ *rollouts.Rollout, c *verb.Command) { c.Full = true }, leaves: true},
		"an edited plan":      {change: func(r *rollouts.Rollout, _ *verb.Command) { r.Annotations[rollouts.AnnotationHash] = "another" }},
		"the last step":       {change: func(r *rollouts.Rollout, _ *verb.Command) { r.Status.Active().CurrentStepIndex = 3 }},
		"a status, as before": {change: func(_ *rollouts.Rollout, c *verb.Command) { c.Via = rollouts.ViaStatus }},
		"a plan that routes": {change: func(r *rollouts.Rollout, _ *verb.Command) {
			r.Spec.Strategy.Canary.TrafficRoutings = []rollouts.TrafficRoutingRef{{Service: "web"}}
		}},
		"what an earlier plan routed": {change: func(r *rollouts.Rollout, _ *verb.Command) { r.Status.Network = &rollouts.NetworkHold{} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := waitingRollout()
			r.Annotations = map[string]string{rollouts.AnnotationHash: "plan"}
			c := verb.Command{Verb: rollouts.VerbPromote, User: "alice", Now: metav1.NewTime(decided.Add(300 * time.Millisecond))}
			tc.change(r, &c)
			step := r.Status.Active().CurrentStepIndex
			if _, err := verb.Apply(r, c); err != nil {
				t.Fatal(err)
			}
			p, d := r.Status.Active(), r.Status.Decisions[0]
			switch {
			case !tc.leaves && (p.CurrentStepIndex != step || p.State != rollouts.StepReady || d.Outcome != ""):
				t.Errorf("at step %d in %s, the decision is %q; want StepReady, and the controller to continue", p.CurrentStepIndex, p.State, d.Outcome)
			case tc.leaves && (p.CurrentStepIndex != step+1 || p.NextStepIndex != -1 || p.State != rollouts.StepUpgrade || d.Outcome != rollouts.OutcomeApplied || d.Step != step):
				t.Errorf("at step %d of %+v, the decision is %+v", p.CurrentStepIndex, p, d)
			}
			if tc.leaves && (!p.LastUpdateTime.Equal(&metav1.Time{Time: decided.Add(time.Second)}) || !d.Time.Equal(&decided)) {
				t.Errorf("it began at %s, and was decided at %s", p.LastUpdateTime, d.Time)
			}
			if c := r.Status.Condition(rollouts.ConditionReconciling); (c != nil && c.Message == r.Status.Message) == (name == "a status, as before") {
				t.Errorf("the condition is %+v", c)
			}
		})
	}
}

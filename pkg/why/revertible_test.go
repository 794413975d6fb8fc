// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package why_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/verb"
	"github.com/weir-rollouts/weir/pkg/why"
)

// TestIrreversible has a step that waits after somebody deleted the stable ReplicaSet. Abort and
// rollback are not offered any more, and the cause is the message of the condition. Other verbs
// remain possible. The stable pods of a StatefulSet continue to run, so an abort still moves
// requests to them.
func TestIrreversible(t *testing.T) {
	t.Parallel()
	const message = "the ReplicaSet of the stable revision v1 was deleted; apply the stable template"
	for kind, abort := range map[string]bool{"Deployment": false, "StatefulSet": true} {
		r := &rollouts.Rollout{}
		r.Spec.WorkloadRef = &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: kind, Name: "web"}
		r.Spec.Strategy.Canary = &rollouts.Release{Steps: []rollouts.Step{{Replicas: new(intstr.FromInt32(1))}, {Replicas: new(intstr.FromString("100%"))}}}
		now := metav1.NewTime(time.Unix(1_800_000_000, 0))
		r.Status.Phase = rollouts.PhaseProgressing
		r.Status.SetActive(rollouts.StylePartition, &rollouts.Progress{
			StableRevision: "v1", UpdateRevision: "v2", CurrentStepIndex: 1, NextStepIndex: 2, State: rollouts.StepPaused, LastUpdateTime: &now,
		})
		r.Status.SetActivity(rollouts.ActivityInRolling, "", now)
		possible := func(v rollouts.Verb) why.Attempt {
			return why.TryVerb(r, verb.Command{Verb: v, User: "alice", Now: now}, nil)
		}
		for _, v := range []rollouts.Verb{rollouts.VerbAbort, rollouts.VerbRollback, rollouts.VerbPromote, rollouts.VerbPause} {
			if a := possible(v); !a.Possible {
				t.Errorf("%s: %s is not possible before: %s", kind, v, a.Reason)
			}
		}
		r.Status.SetCondition(rollouts.Condition{
			Type: rollouts.ConditionRevertible, Status: metav1.ConditionFalse, Reason: string(rollouts.StalledStableGone), Message: message,
		}, now)
		for v, want := range map[rollouts.Verb]bool{rollouts.VerbAbort: abort, rollouts.VerbRollback: false, rollouts.VerbPromote: true, rollouts.VerbPause: true} {
			if a := possible(v); a.Possible != want || (v == rollouts.VerbAbort || v == rollouts.VerbRollback) && a.Reason != message {
				t.Errorf("%s: %s: %+v, want possible %t", kind, v, a, want)
			}
		}
		if w := why.Explain(r, why.Facts{Now: now.Time}); len(w.Causes) != 1 || w.Causes[0].About != "stable" || w.Causes[0].Message != message {
			t.Errorf("%s: causes are %+v", kind, w.Causes)
		}
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/rollout"
	"github.com/weir-rollouts/weir/pkg/release"
)

// A question is about the check of the plan, so that what it uses is looked up anew each
// time, and stays an administrator's.
func TestQuestionOfPlan(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.run([]string{
		"deployment web replicas=4 image=v1", "rollout web", " step 50%", " step 100%", " analysis every=5s", " check name=errors successRate=99%",
		"settle", "requests new=100/0 old=100/0", "update web image=v2", "settle",
	})
	o, err := rollout.Steps(api{s.w}, s.w.clock, rollout.Options{}).Observe(unlogged, types.NamespacedName{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	uses := rollouts.Check{Name: "errors", Use: &rollouts.CheckRef{Kind: "ClusterCheck", Name: "errors"}}
	o.Facts.Rollout.Spec.Strategy.Canary.Analysis.Checks[0], o.Facts.Measured[0].Planned = uses, uses
	questions := release.Decide(o.Facts).Questions
	if len(questions) != 1 || questions[0].Check.Use == nil {
		t.Errorf("asks %+v", questions)
	}
}

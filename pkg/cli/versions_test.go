// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

// With an older server, supported commands work, and others print an error of one line.
func TestOlderServer(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"why web", "get web", "get web -w", "plan web", "plan web --replicas=3", "history web", "diff web", "wait web", "undo web --to=2",
	} {
		r := newRecording(t)
		r.old = true
		out, code := r.run(t, strings.Fields(args)...)
		if code != 1 || strings.Count(out, "\n") != 1 || !strings.Contains(out, "older than this plugin; try kubectl weir doctor") {
			t.Errorf("%s: exit %d:\n%s", args, code, out)
		}
	}
	r := newRecording(t)
	r.old = true
	out, code := r.run(t, "promote", "web", "--full", "--reason", "fine")
	if code != 0 || len(r.sent) != 1 || r.sent[0]["full"] != true || r.sent[0]["reason"] != "fine" {
		t.Errorf("exit %d, sent %v:\n%s", code, r.sent, out)
	}
}

// Unknown values of a newer server are shown as text, at every width.
func TestNewerServer(t *testing.T) {
	t.Parallel()
	why := &v1beta1.RolloutWhy{
		State: "Frozen", Summary: "v8 waits for the moon.", WaitingFor: v1beta1.WaitingFor{For: "moon", What: "a full one"},
		Release: &v1beta1.ReleaseRef{Number: 3, Revision: "v8"},
		Causes:  []v1beta1.Cause{{About: "weather", Message: "it rains", Advice: "wait"}},
		Actions: []v1beta1.Action{{Verb: "dance", Title: "Dance", Possible: true, Allowed: true, Reason: "the rain ends", Needs: []string{"song"}}},
	}
	plan := &v1beta1.RolloutPlan{}
	plan.Status.Steps = []v1beta1.PlannedStep{{Step: 1, State: "Skipped", Then: v1beta1.Then{For: "moon"}}, {State: "Encore"}}
	plan.Status.Findings = []v1beta1.Finding{{Severity: "Notice", Code: "tide", Message: "it is high"}}
	p := &draw.Picture{Plan: plan, Tree: &v1beta1.RolloutTree{Why: *why, Nodes: []v1beta1.Node{
		{ID: "r", Kind: "Rollout", Name: "web"}, {ID: "m", Parent: "r", Kind: "Moon", Name: "full", Role: "moon", Health: "Waxing"},
	}}}
	view := &liveView{screen: draw.Screen{Now: now}, picture: *p}
	for _, width := range []int{0, 30, 80} {
		s := draw.Screen{Width: width, Now: now}
		text := strings.Join(strings.Fields(s.Why(why)+s.Plan(plan)+p.Draw(s)+view.drawView()), " ")
		for _, want := range []string{"the moon", "it rains", "fix: wait", "dance", "the rain ends", "Frozen", "NOTICE", "tide", "· 1", "encore", "moon/full", "1 dance"} {
			if !strings.Contains(text, want) {
				t.Errorf("at width %d it is not said: %s\n%s", width, want, text)
			}
		}
	}
}

// The error about a cluster that does not answer has one line.
func TestUnreached(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"why web", "list", "get web", "get web -w", "plan web", "history web", "diff web", "promote web", "promote -l app=web", "set image web app=web:v8",
		"undo web", "init deployment/web", "dashboard", "why deployment/web",
	} {
		r := newRecording(t)
		r.URL = "http://127.0.0.1:1"
		out, code := r.run(t, strings.Fields(args)...)
		if code != 1 || strings.Count(out, "\n") != 1 || !strings.Contains(out, "no answer from 127.0.0.1:1 (connect: connection refused): check --context") {
			t.Errorf("%s: exit %d:\n%s", args, code, out)
		}
	}
}

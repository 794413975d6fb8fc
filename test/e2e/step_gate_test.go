// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// sentDecision is a decision that a test sent, regardless of the response.
type sentDecision struct {
	verb string
	step int32
	full bool
}

// stepGate is the position of a release when it was last observed.
type stepGate struct {
	sent map[string]sentDecision
	uid  types.UID
	// number counts releases, hash is the plan hash of the steps.
	number int64
	hash   string
	step   int32
	// last is the latest decision before the release was observed at its step.
	last int64
	// observed is the Rollout as it was last observed.
	observed string
	// held reports whether Weir holds the workload, so that the native controller does not release
	// it.
	held bool
}

// recordSentDecision records a decision before it is sent.
func (w *monitor) recordSentDecision(id string, r sentDecision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate.sent[id] = r
}

// seeRollout reports a fault if a step was passed without a decision that was sent.
func (w *monitor) seeRollout(e watch.Event) {
	r, ok := e.Object.(*v1beta1.Rollout)
	if !ok || r.Name != w.app.rollout || e.Type == watch.Deleted {
		return
	}
	g := &w.gate
	if r.UID != g.uid {
		*g = stepGate{sent: g.sent, uid: r.UID, step: 1}
	}
	last := g.last
	for _, d := range r.Status.Decisions {
		last = max(last, d.ID)
		if _, known := g.sent[d.RequestID]; !known && d.Via == "verb" {
			w.fault("no test sent decision %d, %s with ID %q", d.ID, d.Verb, d.RequestID)
		}
	}
	if is := describe(r); is != g.observed {
		g.observed = is
		w.note("%s", is)
	}
	g.held = r.Status.Phase == v1beta1.PhaseProgressing || r.Status.Phase == v1beta1.PhaseDisabling || r.Status.Phase == v1beta1.PhaseTerminating
	now, hash := position(r)
	releases := r.Status.Releases
	if now == 0 || len(releases) == 0 || releases[len(releases)-1].Number != g.number {
		*g = stepGate{sent: g.sent, uid: r.UID, hash: hash, step: 1, last: g.last, observed: g.observed, held: g.held}
		if len(releases) > 0 {
			g.number = releases[len(releases)-1].Number
		}
		if reason(r) == "Aborted" {
			g.step = now // a Rollout that is enabled again continues the aborted release
		}
	}
	for step := g.step; step < now && hash == g.hash; step++ {
		if !w.mayPass(r, step) {
			w.fault("step %d of release %d was passed without a decision: %s, decisions %+v", step, g.number, describe(r), r.Status.Decisions)
		}
	}
	if now == 0 || now < g.step && hash == g.hash {
		g.last = last // each decision counts once
	}
	g.step, g.hash = max(now, 1), hash
}

// position returns the step of a release, counted from 1, a number beyond the last step when all
// are done, and 0 when no release is in progress.
func position(r *v1beta1.Rollout) (step int32, hash string) {
	progress := v1beta1.Progress{}
	steps := 0
	switch {
	case r.Status.Canary != nil && r.Spec.Strategy.Canary != nil:
		progress, steps = r.Status.Canary.Progress, len(r.Spec.Strategy.Canary.Steps)
	case r.Status.BlueGreen != nil && r.Spec.Strategy.BlueGreen != nil:
		progress, steps = r.Status.BlueGreen.Progress, len(r.Spec.Strategy.BlueGreen.Steps)
	}
	if r.Status.Phase != v1beta1.PhaseProgressing {
		return 0, progress.RolloutHash
	}
	if reason(r) == "Finalising" {
		return int32(steps) + 1, progress.RolloutHash
	}
	return progress.CurrentStepIndex, progress.RolloutHash
}

// mayPass reports whether a decision allows the release to pass a step, or the step needs none.
func (w *monitor) mayPass(r *v1beta1.Rollout, step int32) bool {
	if c := r.Spec.Strategy.Canary; c != nil && int(step) == len(c.Steps) {
		if last := c.Steps[step-1].Replicas; last != nil && last.String() == "100%" {
			return true
		}
	}
	for _, d := range r.Status.Decisions {
		sent, known := w.gate.sent[d.RequestID]
		if d.ID <= w.gate.last || !known {
			continue
		}
		switch {
		case sent.verb == "promote" && (sent.full || d.Step == step), sent.verb == "jump" && d.ToStep > step:
			return true
		}
	}
	return false
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"maps"
	"slices"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// promises are what users and routers rely on, whatever happens next.
type promises struct {
	// routed are the revisions that requests are sent to.
	routed map[string]bool
	// keptUntil is until when a revision keeps a ready pod: routers were told to send
	// nothing to it any more, and may not know yet.
	keptUntil map[string]time.Time
	// abortedImage is the image that an abort or a rollback was accepted about.
	abortedImage string
}

func newPromises() promises {
	return promises{routed: map[string]bool{}, keptUntil: map[string]time.Time{}}
}

func (p promises) fork() promises {
	return promises{routed: p.routed, keptUntil: maps.Clone(p.keptUntil), abortedImage: p.abortedImage}
}

// noteRouteTargets notes what requests are sent to after a write. Nobody promises anything for
// what somebody else has deleted.
func (c *invariants) noteRouteTargets(actor string, written object.Object) {
	switch k := keyOf(written).kind; {
	case k != kindService && k != kindIngress && places[k].kind == "":
		return
	}
	now := map[string]bool{}
	for _, target := range c.listRouteTargets() {
		now[target.hash] = true
	}
	for hash := range c.promises.routed {
		if !now[hash] && hash != "" && c.countReadyPodsOf(hash) > 0 && (actor == "rollout" || actor == "routing") {
			c.promises.keptUntil[hash] = c.w.now.Add(c.longestGracePeriod())
		}
	}
	for hash := range now {
		delete(c.promises.keptUntil, hash)
	}
	c.promises.routed = now
}

// longestGracePeriod is the longest grace period that anybody asks for.
func (c *invariants) longestGracePeriod() time.Duration {
	var seconds int32
	for _, r := range listOf[*rollouts.Rollout](c.w.store.objects) {
		_, release := r.Spec.Strategy.Active()
		for _, t := range release.TrafficRoutings {
			seconds = max(seconds, t.GracePeriodSeconds)
		}
	}
	for _, r := range listOf[*rollouts.TrafficRouting](c.w.store.objects) {
		seconds = max(seconds, r.Spec.ObjectRef[0].GracePeriodSeconds)
	}
	return time.Duration(seconds) * time.Second
}

// Grace: a revision that routers were told to forget has a ready pod until each of
// them knows, whatever takes over meanwhile. What the owner of a Rollout that leaves
// releases goes its own way.
func (c *invariants) checkGracePeriod() {
	for hash, until := range c.promises.keptUntil {
		o := appOf(c.w.store.objects, app0)
		switch {
		case !c.w.now.Before(until), o == nil, !workload.HasReleaseMark(o) && !c.hasActiveRollout():
			delete(c.promises.keptUntil, hash)
		case c.countReadyPodsOf(hash) == 0:
			c.violate("grace", "%s lost its pods %s before every router knows", hash, until.Sub(c.w.now))
		}
	}
}

// hasActiveRollout reports whether a Rollout is in service.
func (c *invariants) hasActiveRollout() bool {
	r := find[*rollouts.Rollout](c.w.store.objects, kindRollout, app0)
	return r != nil && r.DeletionTimestamp == nil && !r.Spec.Disabled
}

// noteAcceptedVerb notes an answer to a verb. Who aborts or rolls back means whatever is set
// by then, but for a template that is refused until the release is aborted. Who aborts again
// means that one, too.
func (c *invariants) noteAcceptedVerb(verb rollouts.Verb, before *rollouts.Rollout) {
	condition := before.Status.Condition(rollouts.ConditionStalled)
	again := slices.Contains([]rollouts.Activity{rollouts.ActivityAborting, rollouts.ActivityAborted}, before.Status.Activity())
	refused := condition != nil && condition.Reason == string(rollouts.StalledRefused) && !again
	switch o := c.workload(); {
	case o == nil || verb == rollouts.VerbAbort && refused:
		c.promises.abortedImage = ""
	case verb == rollouts.VerbAbort || verb == rollouts.VerbRollback:
		c.promises.abortedImage = tagOf(templateOf(o))
		if p := before.Status.Active(); p != nil && c.images[p.StableRevision] == c.promises.abortedImage {
			c.promises.abortedImage = "" // the stable template was set already, and may be released by a name
		}
	case verb == rollouts.VerbRetry, verb == rollouts.VerbResume && before.Status.Activity() == rollouts.ActivityPaused:
		c.promises.abortedImage = "" // a Rollout that was made anew finds it stopped, and is paused
	}
}

// Acts: what was aborted, or rolled back, is not released before its owner sets
// another template, or somebody retries.
func (c *invariants) checkAbortedNotReleased(actor string, next *rollouts.Rollout) {
	p := next.Status.Active()
	if c.promises.abortedImage == "" || actor != "rollout" || p == nil || next.Status.Phase != rollouts.PhaseProgressing || !isTakingSteps(next) || next.Status.Activity() == rollouts.ActivityPaused {
		return
	}
	if tag := c.images[p.UpdateRevision]; tag == c.promises.abortedImage && p.UpdateRevision != p.StableRevision {
		c.violate("acts", "%s releases %s, which was aborted: %s", actor, tag, headOf(next.Status))
	}
}

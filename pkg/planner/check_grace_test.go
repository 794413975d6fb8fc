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
	// routed are the revisions that receive requests.
	routed map[string]bool
	// keptUntil is the time until which a revision keeps a ready pod. Routers were told to send it
	// no requests, but some may not have applied the change yet.
	keptUntil map[string]time.Time
	// abortedImage is the image whose abort or rollback was accepted.
	abortedImage string
}

func newPromises() promises {
	return promises{routed: map[string]bool{}, keptUntil: map[string]time.Time{}}
}

func (p promises) fork() promises {
	return promises{routed: p.routed, keptUntil: maps.Clone(p.keptUntil), abortedImage: p.abortedImage}
}

// noteRouteTargets notes which revisions receive requests after a write. The grace period does not
// apply to objects that another actor has deleted.
func (c *invariants) noteRouteTargets(actor string, written object.Object) {
	switch k := keyOf(written).kind; {
	case k != kindService && k != kindIngress && inPlaceRouters[k].kind == "":
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

// longestGracePeriod returns the longest grace period of all Rollouts and TrafficRoutings.
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

// checkGracePeriod checks the invariant "grace": a revision that lost its requests keeps a ready
// pod until every router has applied the change, even if another release starts meanwhile. The
// invariant does not apply without a mark of a release and without an active Rollout.
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

// hasActiveRollout reports whether a Rollout exists that is neither deleted nor disabled.
func (c *invariants) hasActiveRollout() bool {
	r := find[*rollouts.Rollout](c.w.store.objects, kindRollout, app0)
	return r != nil && r.DeletionTimestamp == nil && !r.Spec.Disabled
}

// noteAcceptedVerb notes an accepted verb. An abort or a rollback applies to the template that is
// set at that moment. The exception is a template that waits for the abort of a blue-green release:
// only a second abort applies to that template.
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
			c.promises.abortedImage = "" // the stable template was set already, and a release name may release it
		}
	case verb == rollouts.VerbRetry, verb == rollouts.VerbResume && before.Status.Activity() == rollouts.ActivityPaused:
		c.promises.abortedImage = "" // a Rollout that was created again finds the workload stopped, and is paused
	}
}

// checkAbortedNotReleased checks the invariant "acts": an aborted or rolled back image is not
// released before its owner sets another template or a user retries.
func (c *invariants) checkAbortedNotReleased(actor string, next *rollouts.Rollout) {
	p := next.Status.Active()
	if c.promises.abortedImage == "" || actor != "rollout" || p == nil || next.Status.Phase != rollouts.PhaseProgressing || !isTakingSteps(next) || next.Status.Activity() == rollouts.ActivityPaused {
		return
	}
	if tag := c.images[p.UpdateRevision]; tag == c.promises.abortedImage && p.UpdateRevision != p.StableRevision {
		c.violate("acts", "%s releases %s, which was aborted: %s", actor, tag, headOf(next.Status))
	}
}

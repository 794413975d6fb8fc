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
	// sent are the revisions that requests are sent to.
	sent map[string]bool
	// kept is until when a revision keeps a ready pod: routers were told to send
	// nothing to it any more, and may not know yet.
	kept map[string]time.Time
	// vetoed is the image that an abort or a rollback was accepted about.
	vetoed string
}

func newPromises() promises {
	return promises{sent: map[string]bool{}, kept: map[string]time.Time{}}
}

func (p promises) fork() promises {
	return promises{sent: p.sent, kept: maps.Clone(p.kept), vetoed: p.vetoed}
}

// told notes what requests are sent to after a write. Nobody promises anything for
// what somebody else has deleted.
func (c *invariants) told(actor string, written object.Object) {
	switch k := keyOf(written).kind; {
	case k != kindService && k != kindIngress && places[k].kind == "":
		return
	}
	now := map[string]bool{}
	for _, target := range c.targets() {
		now[target.hash] = true
	}
	for hash := range c.promises.sent {
		if !now[hash] && hash != "" && c.able(hash) > 0 && (actor == "rollout" || actor == "routing") {
			c.promises.kept[hash] = c.w.now.Add(c.grace())
		}
	}
	for hash := range now {
		delete(c.promises.kept, hash)
	}
	c.promises.sent = now
}

// grace is the longest grace period that anybody asks for.
func (c *invariants) grace() time.Duration {
	var seconds int32
	for _, r := range each[*rollouts.Rollout](c.w.store.objects) {
		_, release := r.Spec.Strategy.Active()
		for _, t := range release.TrafficRoutings {
			seconds = max(seconds, t.GracePeriodSeconds)
		}
	}
	for _, r := range each[*rollouts.TrafficRouting](c.w.store.objects) {
		seconds = max(seconds, r.Spec.ObjectRef[0].GracePeriodSeconds)
	}
	return time.Duration(seconds) * time.Second
}

// Grace: a revision that routers were told to forget has a ready pod until each of
// them knows, whatever takes over meanwhile. What the owner of a Rollout that leaves
// releases goes its own way.
func (c *invariants) waited() {
	for hash, until := range c.promises.kept {
		o := appOf(c.w.store.objects, app0)
		switch {
		case !c.w.now.Before(until), o == nil, !workload.HasReleaseMark(o) && !c.governed():
			delete(c.promises.kept, hash)
		case c.able(hash) == 0:
			c.violate("grace", "%s lost its pods %s before every router knows", hash, until.Sub(c.w.now))
		}
	}
}

// governed reports whether a Rollout is in service.
func (c *invariants) governed() bool {
	r := find[*rollouts.Rollout](c.w.store.objects, kindRollout, app0)
	return r != nil && r.DeletionTimestamp == nil && !r.Spec.Disabled
}

// accepted notes an answer to a verb. Who aborts or rolls back means whatever is set
// by then, but for a template that is refused until the release is aborted. Who aborts again
// means that one, too.
func (c *invariants) accepted(verb rollouts.Verb, before *rollouts.Rollout) {
	condition := before.Status.Condition(rollouts.ConditionStalled)
	again := slices.Contains([]rollouts.Activity{rollouts.ActivityAborting, rollouts.ActivityAborted}, before.Status.Activity())
	refused := condition != nil && condition.Reason == string(rollouts.StalledRefused) && !again
	switch o := c.workload(); {
	case o == nil || verb == rollouts.VerbAbort && refused:
		c.promises.vetoed = ""
	case verb == rollouts.VerbAbort || verb == rollouts.VerbRollback:
		c.promises.vetoed = tagOf(templateOf(o))
		if p := before.Status.Active(); p != nil && c.images[p.StableRevision] == c.promises.vetoed {
			c.promises.vetoed = "" // the stable template was set already, and may be released by a name
		}
	case verb == rollouts.VerbRetry, verb == rollouts.VerbResume && before.Status.Activity() == rollouts.ActivityPaused:
		c.promises.vetoed = "" // a Rollout that was made anew finds it stopped, and is paused
	}
}

// Acts: what was aborted, or rolled back, is not released before its owner sets
// another template, or somebody retries.
func (c *invariants) acts(actor string, next *rollouts.Rollout) {
	p := next.Status.Active()
	if c.promises.vetoed == "" || actor != "rollout" || p == nil || next.Status.Phase != rollouts.PhaseProgressing || !going(next) || next.Status.Activity() == rollouts.ActivityPaused {
		return
	}
	if tag := c.images[p.UpdateRevision]; tag == c.promises.vetoed && p.UpdateRevision != p.StableRevision {
		c.violate("acts", "%s releases %s, which was aborted: %s", actor, tag, headOf(next.Status))
	}
}

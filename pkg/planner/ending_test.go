// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/verb"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// A release can be ended in each of these ways from any state. Each ending is played in its own
// copy of the world.

type ending struct {
	name string
	play func(*releaseEnd)
}

var endings = []ending{
	{"left alone", (*releaseEnd).leaveAlone},
	{"reverted", (*releaseEnd).revert},
	{"released", (*releaseEnd).release},
	{"deleted", (*releaseEnd).delete},
	{"disabled", (*releaseEnd).disable},
	{"aborted", (*releaseEnd).abort},
	{"rolled back", (*releaseEnd).rollback},
	{"tried again", (*releaseEnd).retry},
}

// releaseEnd is a world in which an ending is played.
type releaseEnd struct {
	*world
	name string
}

const app0 = "web"

func (e *releaseEnd) rollout() *rollouts.Rollout {
	return find[*rollouts.Rollout](e.store.objects, kindRollout, app0)
}

func (e *releaseEnd) workload() object.Object { return appOf(e.store.objects, app0) }

// settle runs the world until nothing changes, and checks the invariant "quiet": the world comes to
// rest.
func (e *releaseEnd) settle() bool {
	_, ok := e.runUntilIdle()
	if ok && e.deleteStuckPods() {
		_, ok = e.runUntilIdle()
	}
	if !ok {
		e.check.violate("quiet", "%s: no rest after %d rounds", e.name, maxRounds)
	}
	e.checkRecorded()
	if ok {
		e.checkWaitIsReported()
	}
	if len(e.check.broken) > 0 {
		return false
	}
	d := e.workload()
	if !ok || d == nil || replicasOf(d) == 0 || hasBrokenImage(*templateOf(d)) {
		return ok
	}
	for _, target := range e.check.listRouteTargets() {
		if target.able == 0 && (!e.check.excusesLostStable || e.check.countServingPods() > 0) {
			e.check.violate("traffic", "%s: %s, which has no ready pod for good", e.name, target.what)
		}
	}
	return ok
}

// checkWaitIsReported checks the invariant "silent": a release at rest that does not wait for a
// user has the Stalled condition.
func (e *releaseEnd) checkWaitIsReported() {
	r := e.rollout()
	if r == nil || r.Status.Active() == nil || isStalled(r.Status) || len(planner.StoredChecksHoldingTraffic(r)) > 0 {
		return
	}
	_, release := r.Spec.Strategy.Active()
	if d := release.ProgressDeadlineSeconds; d != nil && *d == math.MaxInt32 {
		return
	}
	if waitsForPods(r.Status) {
		e.check.violate("silent", "%s: the rollout is %s, %s", e.name, headOf(r.Status), r.Status.Message)
	}
}

// waitsForPods reports whether a status at rest requires the Stalled condition.
func waitsForPods(s rollouts.RolloutStatus) bool {
	p := s.Active()
	switch a := s.Activity(); {
	case s.Phase == rollouts.PhaseTerminating, s.Phase == rollouts.PhaseDisabling:
		return true
	case s.Phase != rollouts.PhaseProgressing, a == rollouts.ActivityPaused, a == rollouts.ActivityCompleted:
		return false
	case a == rollouts.ActivityAborted:
		return p.RollingBack
	case a == rollouts.ActivityInRolling:
		return p.State != rollouts.StepPaused || p.FinalisingStep != ""
	default:
		return true
	}
}

// unblockRelease creates missing objects and resumes the release, so that it can continue.
func (e *releaseEnd) unblockRelease() {
	if e.store.objects[key{kindService, app0}] == nil {
		e.createService(app0)
	}
	switch k := e.routerKind(); {
	case e.store.objects[key{k, app0}] != nil:
	case k == kindIngress:
		e.createIngress(app0, app0)
	default:
		e.createRouter(k, app0)
	}
	e.recreateTrafficRouting()
	e.editRollout(app0, func(s *rollouts.RolloutSpec) { s.Strategy.Paused, s.Disabled = false, false })
	e.applyVerb(app0, verb.Command{Verb: rollouts.VerbResume, User: "end"})
	e.resume()
}

// resume resumes a workload that a Rollout left paused.
func (e *releaseEnd) resume() {
	if d := e.workload(); nativeOf(d).isStopped(d) && !workload.HasReleaseMark(d) {
		e.updateWorkload(app0, nativeOf(d).resume)
	}
}

// routerKind returns the kind of router that the Rollout names.
func (e *releaseEnd) routerKind() kind {
	_, release := e.rollout().Spec.Strategy.Active()
	for _, t := range release.TrafficRoutings {
		switch {
		case t.Gateway != nil:
			return kindHTTPRoute
		case len(t.CustomNetworkRefs) > 0:
			return kindOf(t.CustomNetworkRefs[0].Kind)
		}
	}
	return kindIngress
}

// stableImage returns the image that served before the release, or "" if the image is unknown or
// its set is gone.
func (e *releaseEnd) stableImage() string {
	if r := e.rollout(); r != nil && r.Status.Active() != nil && e.hasNoSet(r.Status.Active().StableRevision) {
		return ""
	}
	return e.earlierImage()
}

// earlierImage returns the image that served before the release, even if its set is gone.
func (e *releaseEnd) earlierImage() string {
	r := e.rollout()
	if r == nil || r.DeletionTimestamp != nil || r.Spec.Disabled || r.Status.Phase != rollouts.PhaseProgressing {
		return ""
	}
	p := r.Status.Active()
	a := r.Status.Activity()
	if a == rollouts.ActivityFinalising && p.FinalisingStep != "" && p.FinalisingStep != rollouts.FinalisingRemoveRoute {
		return "" // the Rollout may have released the workload already
	}
	if a == rollouts.ActivityCancelling {
		return "" // the template was reverted, and the stable revision of the status may be outdated
	}
	return e.check.images[p.StableRevision]
}

// hasNoSet reports whether a revision has neither a ReplicaSet nor a ControllerRevision.
func (e *releaseEnd) hasNoSet(revision string) bool {
	return e.check.setOfRevision(revision) == nil && e.store.objects[key{kindRevision, revision}] == nil && e.store.objects[key{kindRevision, app0 + "-" + revision}] == nil
}

// checkAllPodsRun checks that every pod has the image and is ready.
func (e *releaseEnd) checkAllPodsRun(invariant, tag string) {
	for _, rs := range listOf[*appsv1.ReplicaSet](e.store.objects) {
		want := int32(0)
		if imageOfSet(rs) == tag {
			want = replicasOf(e.workload())
		}
		if servingPods(rs) != want || *rs.Spec.Replicas != want {
			e.check.violate(invariant, "%s: %d of %d pods ready of %s, should be %d", e.name, servingPods(rs), *rs.Spec.Replicas, imageOfSet(rs), want)
		}
	}
	for _, p := range podsIn(e.store.objects) {
		if isUnavailable(p) || podTag(p) != tag {
			e.check.violate(invariant, "%s: %s runs %s, ready %t, should run %s", e.name, p.Name, podTag(p), !isUnavailable(p), tag)
		}
	}
	if n := replicasOf(e.workload()); e.check.countServingPods() < n {
		e.check.violate(invariant, "%s: %d pods ready of %d", e.name, e.check.countServingPods(), n)
	}
}

func (e *releaseEnd) checkHealthy(invariant string) {
	// Clients read the state of the step in every phase.
	if p := e.rollout().Status.Active(); p == nil || p.State != rollouts.StepCompleted {
		e.check.violate(invariant, "%s: the step is not completed, %+v", e.name, p)
	}
	if s := e.rollout().Status; s.Phase != rollouts.PhaseHealthy {
		e.check.violate(invariant, "%s: the rollout is %s, %s", e.name, headOf(s), s.Message)
	}
	if o := e.workload(); o != nil && nativeOf(o).isStopped(o) {
		e.check.violate("traceless", "%s: the workload is paused", e.name)
	}
	e.checkCommandOutcomes()
}

// checkCommandOutcomes checks the invariant "no lost command": at the end, each decision has an
// outcome.
func (e *releaseEnd) checkCommandOutcomes() {
	for _, d := range e.rollout().Status.Decisions {
		if d.Outcome == "" {
			e.check.violate("no lost command", "%s: nothing came of decision %d, %s", e.name, d.ID, d.Verb)
		}
	}
}

// checkNoTraces checks that only the objects and labels that admission needs for an active Rollout
// remain, and that the owner's fields have the owner's values.
func (e *releaseEnd) checkNoTraces() {
	left := listTraces(e.store.objects)
	var guards []string
	if r := e.rollout(); r != nil && planner.HoldsOnTemplateChange(r) {
		guards = []string{"entry " + r.Spec.WorkloadRef.Kind + ".apps_" + app0, "label " + rollouts.LabelWorkloadType + " of " + app0}
	}
	if !slices.Equal(left, guards) {
		e.check.violate("traceless", "%s: %v are left, want %v", e.name, left, guards)
	}
	d := e.workload()
	if d == nil {
		return
	}
	n := nativeOf(d)
	if !n.hasOwnerSpec(d, e.check.owner) {
		e.check.violate("traceless", "%s: the workload is %s", e.name, n.describeStrategy(d))
	}
	if n.isStopped(d) && !e.check.aborted {
		e.check.violate("traceless", "%s: the workload is stopped", e.name)
	}
}

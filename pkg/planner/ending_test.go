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

// Whatever has happened, a release can be ended in each of these ways, and ends
// as it should. Every ending is played in a world of its own.

type ending struct {
	name string
	play func(*end)
}

var endings = []ending{
	{"left alone", (*end).leave},
	{"reverted", (*end).revert},
	{"released", (*end).release},
	{"deleted", (*end).delete},
	{"disabled", (*end).disable},
	{"aborted", (*end).abort},
	{"rolled back", (*end).rollback},
	{"tried again", (*end).retry},
}

// end is a world that is being brought to an end.
type end struct {
	*world
	name string
}

const app0 = "web"

func (e *end) rollout() *rollouts.Rollout {
	return find[*rollouts.Rollout](e.store.objects, kindRollout, app0)
}

func (e *end) workload() object.Object { return appOf(e.store.objects, app0) }

// settle is the invariant "quiet": an obedient world comes to rest.
func (e *end) settle() bool {
	_, ok := e.rest()
	if ok && e.unstick() {
		_, ok = e.rest()
	}
	if !ok {
		e.check.violate("quiet", "%s: no rest after %d rounds", e.name, most)
	}
	e.recorded()
	if ok {
		e.told()
	}
	if len(e.check.broken) > 0 {
		return false
	}
	d := e.workload()
	if !ok || d == nil || replicasOf(d) == 0 || bad(*templateOf(d)) {
		return ok
	}
	for _, target := range e.check.targets() {
		if target.able == 0 && (!e.check.lost || e.check.serving() > 0) {
			e.check.violate("traffic", "%s: %s, which has no ready pod for good", e.name, target.what)
		}
	}
	return ok
}

// told is the invariant "silent": whatever rests without waiting for somebody
// says that it stands still.
func (e *end) told() {
	r := e.rollout()
	if r == nil || r.Status.Active() == nil || stalled(r.Status) {
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

// waitsForPods tells of a status at rest that somebody should hear about it.
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

// serve gives the release what it needs to go on.
func (e *end) serve() {
	if e.store.objects[key{kindService, app0}] == nil {
		e.expose(app0)
	}
	switch k := e.routedBy(); {
	case e.store.objects[key{k, app0}] != nil:
	case k == kindIngress:
		e.publish(app0, app0)
	default:
		e.lead(k, app0)
	}
	e.serveRouting()
	e.edit(app0, func(s *rollouts.RolloutSpec) { s.Strategy.Paused, s.Disabled = false, false })
	e.decide(app0, verb.Command{Verb: rollouts.VerbResume, User: "end"})
	e.resume()
}

// resume goes on with a workload that was given back paused.
func (e *end) resume() {
	if d := e.workload(); nativeOf(d).stopped(d) && !workload.Marked(d) {
		e.change(app0, nativeOf(d).resume)
	}
}

// routedBy is the kind of router that the Rollout names.
func (e *end) routedBy() kind {
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

// stable is the image that served before the release, as far as it is known and its
// set is there to go back to.
func (e *end) stable() string {
	if r := e.rollout(); r != nil && r.Status.Active() != nil && e.lost(r.Status.Active().StableRevision) {
		return ""
	}
	return e.earlier()
}

// earlier is that image, whether or not anything of it is left.
func (e *end) earlier() string {
	r := e.rollout()
	if r == nil || r.DeletionTimestamp != nil || r.Spec.Disabled || r.Status.Phase != rollouts.PhaseProgressing {
		return ""
	}
	p := r.Status.Active()
	a := r.Status.Activity()
	if a == rollouts.ActivityFinalising && p.FinalisingStep != "" && p.FinalisingStep != rollouts.FinalisingRouteToStable {
		return "" // it may have been given back already
	}
	if a == rollouts.ActivityCancelling {
		return "" // it was put back, and its own revision may be another's stable by now
	}
	return e.check.images[p.StableRevision]
}

// lost reports whether no set is left of a revision.
func (e *end) lost(revision string) bool {
	return e.check.set(revision) == nil && e.store.objects[key{kindRevision, revision}] == nil && e.store.objects[key{kindRevision, app0 + "-" + revision}] == nil
}

// revert puts the stable template back, and takes the name off: the invariant "reversible".
// That is the way out, too, where nobody can go back.
func (e *end) revert() {
	tag := e.earlier()
	d := e.workload()
	if p := e.rollout(); tag != "" && e.lost(p.Status.Active().StableRevision) && p.Status.Active().StableTemplate == "" {
		return // lost before the release began, so that nobody knows its template
	}
	if tag == "" || d == nil || !workload.Marked(d) {
		return
	}
	if e.aside(d) && (!e.settle() || e.workload() == nil || e.aside(e.workload())) {
		return // nothing would change on the workload, so that nobody could see the wish
	}
	e.change(app0, func(o object.Object) {
		setImage(tag)(o)
		o.SetLabels(without(o.GetLabels(), rollouts.LabelRolloutID)) // a name would be a wish of its own
	})
	if !e.settle() {
		return
	}
	if bad(*templateOf(e.workload())) {
		return // it never served, and never will
	}
	e.runs("reversible", tag)
	e.healthy("reversible")
	e.traceless()
}

// abort brings everything back to stable and keeps the workload held.
func (e *end) abort() {
	tag, d := e.stable(), e.workload()
	if tag == "" || d == nil || e.refused() {
		return
	}
	said := e.decide(app0, verb.Command{Verb: rollouts.VerbAbort, User: "end"})
	if !e.settle() || said != "accepted" || e.workload() == nil {
		return
	}
	switch a := e.rollout().Status.Activity(); a {
	case rollouts.ActivityAborting:
		if tag != "failed" {
			e.check.violate("reversible", "aborted: the release is still %s, %s", a, e.rollout().Status.Message)
		}
		return
	case rollouts.ActivityAborted:
		if tag != "failed" { // else it never served, and never will
			e.runs("reversible", tag)
		}
		if o := e.workload(); !nativeOf(o).rested(o, e.check.owner) {
			e.check.violate("reversible", "aborted: the workload is %s", nativeOf(o).governed(o))
		}
	case rollouts.ActivityCompleted: // the template was put back
	default:
		e.check.violate("reversible", "aborted: the release is %s, %s", a, e.rollout().Status.Message)
		return
	}
	e.commands()
	e.revert()
}

// refused reports whether another template waits for the abort of a blue-green release.
func (e *end) refused() bool {
	c := e.rollout().Status.Condition(rollouts.ConditionStalled)
	return c != nil && c.Reason == string(rollouts.StalledRefused)
}

// rollback has everything back as it was before the release.
func (e *end) rollback() {
	tag, d := e.stable(), e.workload()
	if tag == "" || d == nil {
		return
	}
	stable := e.rollout().Status.Active().StableRevision
	said := e.decide(app0, verb.Command{Verb: rollouts.VerbRollback, User: "end"})
	if !e.settle() || said != "accepted" || e.workload() == nil || tag == "failed" || e.lost(stable) {
		return // where the native controller kept no history, nothing is left to set
	}
	e.runs("reversible", tag)
	e.healthy("reversible")
	e.traceless()
}

// retry releases what was aborted after all.
func (e *end) retry() {
	d := e.workload()
	if e.stable() == "" || d == nil || e.wanted(d) == "failed" || e.check.stableFails() || e.hopeless() || e.rollout().Status.Active().RollingBack ||
		e.rollout().Status.Active().UpdateRevision != e.asked(d) {
		return
	}
	tag := e.wanted(d)
	e.decide(app0, verb.Command{Verb: rollouts.VerbAbort, User: "end"})
	e.round()
	said := e.decide(app0, verb.Command{Verb: rollouts.VerbRetry, User: "end"})
	e.serve()
	if !e.settle() || said != "accepted" {
		return
	}
	e.decide(app0, verb.Command{Verb: rollouts.VerbPromote, User: "end", Full: true})
	if !e.settle() {
		return
	}
	e.runs("reversible", tag)
	e.healthy("reversible")
	e.traceless()
}

// release takes the newest template to the end.
func (e *end) release() {
	r, d := e.rollout(), e.workload()
	if r == nil || r.DeletionTimestamp != nil || d == nil || e.hopeless() {
		return
	}
	e.serve()
	if bad(*templateOf(d)) {
		e.change(app0, setImage("v8"))
	}
	if !e.settle() || e.check.lost && e.check.allSizes() == 0 {
		return // no set is left to begin from
	}
	e.resume()
	if !e.settle() {
		return
	}
	s := e.rollout().Status
	resumed := s.Activity() == rollouts.ActivityCancelling && e.lost(s.Active().StableRevision)
	if resumed || s.Phase == rollouts.PhaseInitial || s.Phase == rollouts.PhaseHealthy && s.Active().UpdateRevision == "" {
		// The native controller wedges itself when a rolling update is scaled
		// down to where one set has just that size; another size wakes it.
		e.resize(app0, replicasOf(d)+1)
		if !e.settle() {
			return
		}
	}
	if a := e.rollout().Status.Activity(); a == rollouts.ActivityAborted || a == rollouts.ActivityAborting {
		e.change(app0, setImage("v9"))
		if !e.settle() {
			return
		}
	}
	if e.refused() {
		stable := e.rollout().Status.Active().StableRevision
		e.decide(app0, verb.Command{Verb: rollouts.VerbAbort, User: "end"}) // which makes room for it
		if !e.settle() || e.lost(stable) || e.check.stableFails() {
			return // where the native controller kept no history, nothing is left to go back to
		}
	}
	if e.check.stableFails() && e.rollout().Spec.Strategy.BlueGreen != nil {
		return // it waits for a whole stable revision, lest requests are lost
	}
	e.decide(app0, verb.Command{Verb: rollouts.VerbPromote, User: "end", Full: true})
	if !e.settle() {
		return
	}
	e.runs("quiet", tagOf(templateOf(e.workload())))
	e.healthy("quiet")
	e.traceless()
}

// hopeless reports whether a release is being aborted to a version that cannot run.
func (e *end) hopeless() bool {
	r := e.rollout()
	if r == nil || r.Status.Active() == nil || r.Status.Activity() != rollouts.ActivityAborting {
		return false
	}
	return e.check.images[r.Status.Active().StableRevision] == "failed"
}

// delete and disable give everything back.
func (e *end) delete() {
	if e.hopeless() {
		return
	}
	if !e.remove(kindRollout, app0) || !e.settle() {
		return
	}
	if e.rollout() != nil {
		e.check.violate("quiet", "deleted: the rollout is still there, %s", e.rollout().Status.Message)
		return
	}
	e.traceless()
}

func (e *end) disable() {
	if e.hopeless() {
		return
	}
	if !e.edit(app0, func(s *rollouts.RolloutSpec) { s.Disabled = true }) || !e.settle() {
		return
	}
	if e.workload() == nil {
		return
	}
	if phase := e.rollout().Status.Phase; phase != rollouts.PhaseDisabled {
		e.check.violate("quiet", "disabled: the rollout is %s", phase)
		return
	}
	e.commands()
	e.traceless()
}

// runs checks that every pod has the image and is ready.
func (e *end) runs(invariant, tag string) {
	for _, rs := range each[*appsv1.ReplicaSet](e.store.objects) {
		want := int32(0)
		if image(rs) == tag {
			want = replicasOf(e.workload())
		}
		if serving(rs) != want || *rs.Spec.Replicas != want {
			e.check.violate(invariant, "%s: %d of %d pods ready of %s, should be %d", e.name, serving(rs), *rs.Spec.Replicas, image(rs), want)
		}
	}
	for _, p := range podsIn(e.store.objects) {
		if missing(p) || podTag(p) != tag {
			e.check.violate(invariant, "%s: %s runs %s, ready %t, should run %s", e.name, p.Name, podTag(p), !missing(p), tag)
		}
	}
	if n := replicasOf(e.workload()); e.check.serving() < n {
		e.check.violate(invariant, "%s: %d pods ready of %d", e.name, e.check.serving(), n)
	}
}

func (e *end) healthy(invariant string) {
	// Clients look at the state of the step whatever the phase is.
	if p := e.rollout().Status.Active(); p == nil || p.State != rollouts.StepCompleted {
		e.check.violate(invariant, "%s: the step is not completed, %+v", e.name, p)
	}
	if s := e.rollout().Status; s.Phase != rollouts.PhaseHealthy {
		e.check.violate(invariant, "%s: the rollout is %s, %s", e.name, headOf(s), s.Message)
	}
	if o := e.workload(); o != nil && nativeOf(o).stopped(o) {
		e.check.violate("traceless", "%s: the workload is paused", e.name)
	}
	e.commands()
}

// commands is the invariant "no lost command": at the end each has an outcome.
func (e *end) commands() {
	for _, d := range e.rollout().Status.Decisions {
		if d.Outcome == "" {
			e.check.violate("no lost command", "%s: nothing came of decision %d, %s", e.name, d.ID, d.Verb)
		}
	}
}

// traceless checks that what lets admission see the workload of a Rollout in
// service is left, and nothing else, and that what was the owner's is the owner's again.
func (e *end) traceless() {
	left := traces(e.store.objects)
	var guards []string
	if r := e.rollout(); r != nil && planner.Holds(r) {
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
	if !n.returned(d, e.check.owner) {
		e.check.violate("traceless", "%s: the workload is %s", e.name, n.governed(d))
	}
	if n.stopped(d) && !e.check.aborted {
		e.check.violate("traceless", "%s: the workload is stopped", e.name)
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// invariants checks the invariants that hold at every moment, in any order of actors. The
// invariants of endings are in ending_test.go.
type invariants struct {
	w *world
	// broken describes the violations.
	broken []string

	// planned and committed are the resourceVersions that an actor planned from and stored.
	planned, committed map[string]string
	// owner is the workload as its owner wrote it.
	owner object.Object
	// excusesPodFailures suspends the invariants that failed pods violate, and excusesSizeZero
	// those that a workload of size 0 violates. Both end when all requested pods are ready.
	excusesPodFailures, excusesSizeZero bool
	// failedAt is the moment of the store by which pods had failed. A controller with an older
	// cache may still count these pods as ready.
	failedAt int
	// damagedAt is the moment of the store of the last broken or deleted pods. A controller with an
	// older cache does not observe the damage.
	damagedAt int
	// excusesLostStable suspends the invariants that a deleted stable set violates. It ends when a
	// stable pod is ready again and the sets have no more pods than requested.
	excusesLostStable bool
	// excusesLostBatch suspends the invariants that a user violates by deleting the BatchRelease,
	// which deletes its pods.
	excusesLostBatch bool
	// excusesGrowth allows the pods that are created because the size grows.
	excusesGrowth bool
	// surplus are the pods beyond the target of the step.
	surplus surplus
	// aborted reports whether a release was aborted, so that the workload may stay paused until its
	// owner resumes it.
	aborted bool
	// images are the image tags of revisions, by hash.
	images map[string]string
	gates  gates
	// checkRecord are the checks of the plan that a release must not skip.
	checkRecord checkRecord
	// promises are what requests and users rely on.
	promises promises
}

func newChecks() *invariants {
	return &invariants{planned: map[string]string{}, committed: map[string]string{}, images: map[string]string{}, gates: newGates(), checkRecord: newCheckRecord(), promises: newPromises()}
}

// fork returns an independent copy.
func (c *invariants) fork() *invariants {
	f := *c
	f.planned, f.committed, f.images = maps.Clone(c.planned), maps.Clone(c.committed), maps.Clone(c.images)
	f.gates, f.checkRecord, f.promises = c.gates.fork(), c.checkRecord.fork(), c.promises.fork()
	return &f
}

func (c *invariants) violate(invariant, format string, args ...any) {
	c.broken = append(c.broken, invariant+": "+fmt.Sprintf(format, args...))
}

// equal compares values of the planner, which contain times.
var equal = func() conversion.Equalities {
	e := equality.Semantic.Copy()
	if err := e.AddFunc(func(a, b time.Time) bool { return a.Equal(b) }); err != nil {
		panic(err)
	}
	return e
}()

// Invariant "deterministic": equal observations give equal plans, and planning does not change the
// observation.

func deterministic[O, D any](c *invariants, what string, o O, copied func(O) O, decide func(O) D) D {
	before := copied(o)
	d, again := decide(o), decide(copied(before))
	if !equal.DeepEqual(d, again) {
		c.violate("deterministic", "two decisions about one %s:\n%+v\n%+v", what, d, again)
	}
	if !equal.DeepEqual(o, before) {
		c.violate("deterministic", "deciding about a %s changed what was observed", what)
	}
	return d
}

func (c *invariants) decideRollout(o planner.Input) planner.Decision {
	c.notePlanned("rollout", o.Rollout)
	d := deterministic(c, "rollout", o, copied, planner.Decide)
	c.checkConditionsForTools(d.Status)
	for _, condition := range d.Status.Conditions {
		if !slices.Contains(rollouts.ConditionTypes, condition.Type) {
			c.violate("our conditions", "%s is not in rollouts.ConditionTypes, so that others may write it", condition.Type)
		}
	}
	return d
}

func copied(o planner.Input) planner.Input {
	o.Rollout = o.Rollout.DeepCopy()
	if o.Workload != nil {
		w := *o.Workload
		if w.Target != nil {
			d := *w.Target
			w.Target = &d
		}
		o.Workload = &w
	}
	if o.Batch != nil {
		b := *o.Batch
		b.Plan = *b.Plan.DeepCopy()
		o.Batch = &b
	}
	if o.Routing != nil {
		r := *o.Routing
		r.Unreferenced = slices.Clone(r.Unreferenced)
		o.Routing = &r
	}
	if o.Route != nil {
		r := *o.Route
		r.Matches, r.UnroutableSteps = slices.Clone(r.Matches), slices.Clone(r.UnroutableSteps)
		o.Route = &r
	}
	return o
}

func (c *invariants) decideBatch(o planner.BatchInput) {
	c.notePlanned("batch", o.Release)
	deterministic(c, "batchrelease", o, func(o planner.BatchInput) planner.BatchInput {
		o.Release = o.Release.DeepCopy()
		return o
	}, planner.DecideBatch)
}

func (c *invariants) decideSizes(s sizes.Scaling) sizes.Scale {
	return deterministic(c, "deployment", s, func(s sizes.Scaling) sizes.Scaling {
		s.Others = slices.Clone(s.Others)
		return s
	}, sizes.Decide)
}

// Invariant "persist first": an effect follows a commit at the version that the plan is based on.
// Effects that follow from the stored status need no commit.

func (c *invariants) notePlanned(actor string, o object.Object) {
	c.planned[actor], c.committed[actor] = o.GetResourceVersion(), ""
}

func (c *invariants) checkCommit(actor string, next object.Object) {
	if next.GetResourceVersion() != c.planned[actor] {
		c.violate("persist first", "%s committed at version %s what was planned from %s", actor, next.GetResourceVersion(), c.planned[actor])
	}
	if r, ok := next.(*rollouts.Rollout); ok {
		for _, at := range statusTimes(r.Status) {
			if at.Nanosecond() != 0 {
				c.violate("persist first", "%s stores %s, of which the wire keeps the seconds", actor, at)
			}
		}
	}
	if r, ok := next.(*rollouts.Rollout); ok {
		c.checkConcluded(r.Status)
		c.checkMessageMatchesChecks(r)
	}
	c.committed[actor] = c.w.store.objects[keyOf(next)].GetResourceVersion()
}

// checkMessageMatchesChecks checks the invariant "said": if a step waits for its metrics, the
// message repeats the stored results of its checks. A jump by a write of the status keeps the old
// message for three seconds, in which nothing is measured.
func (c *invariants) checkMessageMatchesChecks(r *rollouts.Rollout) {
	a, p := r.Status.Analysis, r.Status.Active()
	_, plan := r.Spec.Strategy.Active()
	if a == nil || p == nil || plan == nil || p.State == rollouts.BeforeStepUpgrade || !strings.Contains(r.Status.Message, ", and its checks are running: ") {
		return
	}
	reported := func(name string) bool {
		return slices.ContainsFunc(plan.Analysis.Checks, func(check rollouts.Check) bool {
			return rollouts.CheckName(&check) == name && cmp.Or(check.OnFail, plan.Analysis.OnFail) == rollouts.OnFailReport
		})
	}
	for _, result := range a.Checks {
		if result.Result == rollouts.CheckRunning && !reported(result.Name) && !a.Overridden && !strings.Contains(r.Status.Message, result.Name+": "+result.Why) {
			c.violate("said", "check %s is stored as %q, and the message is %q", result.Name, result.Why, r.Status.Message)
		}
	}
}

// checkConcluded checks the invariant "concluded": at rest, the status reports neither progress nor
// an abort. A disabled Rollout remembers an abort, so that it does not release the aborted version
// when it is enabled.
func (c *invariants) checkConcluded(s rollouts.RolloutStatus) {
	progressing := s.Condition(rollouts.ConditionProgressing)
	if progressing == nil || s.Phase != rollouts.PhaseHealthy && s.Phase != rollouts.PhaseDisabled {
		return
	}
	over := s.Activity() == rollouts.ActivityCompleted || s.Phase == rollouts.PhaseDisabled && s.Activity() == rollouts.ActivityAborted
	if progressing.Status != metav1.ConditionFalse || !over {
		c.violate("concluded", "%s, and Progressing=%s/%s", s.Phase, progressing.Status, progressing.Reason)
	}
}

func statusTimes(s rollouts.RolloutStatus) []metav1.Time {
	var out []metav1.Time
	if p := s.Active(); p != nil && p.LastUpdateTime != nil {
		out = append(out, *p.LastUpdateTime)
	}
	for _, c := range s.Conditions {
		out = append(out, c.LastTransitionTime, c.LastUpdateTime)
	}
	return out
}

func (c *invariants) checkEffect(actor string) {
	if actor != "sizes" && !c.w.isFromStored && c.committed[actor] == "" {
		c.violate("persist first", "%s acts on what it has not stored", actor)
	}
}

func (c *invariants) checkWrite(actor string, old, next object.Object) {
	if actor == "user" && old == nil && natives[keyOf(next).kind] != nil {
		c.owner = clone(next)
	}
	switch o := newer(old, next).(type) {
	case *appsv1.StatefulSet:
		c.checkStatefulSetWrite(actor, old, next)
	case *workload.CloneSet:
		c.checkCloneSetWrite(actor, old, next)
	case *appsv1.ControllerRevision:
		c.images[cmp.Or(o.Labels[ordinalKey], o.Name)] = tagOf(templateIn(o))
	case *corev1.Pod:
		c.checkPodDeletion(actor, old, next)
	case *rollouts.BatchRelease:
		c.checkLastReadyPods(actor, old, next)
		if next != nil {
			c.checkBatchRequested(actor, old, o)
		}
	case *appsv1.Deployment:
		c.checkLastReadyPods(actor, old, next)
		c.aborted = c.aborted && o.Spec.Paused
		// Any share of a single pod is that pod, so stable is scaled to 0.
		c.excusesSizeZero = c.excusesSizeZero || *o.Spec.Replicas <= 1
		if was, ok := old.(*appsv1.Deployment); ok && o.Spec.MinReadySeconds > 0 && *was.Spec.Replicas != *o.Spec.Replicas {
			c.excusesSizeZero = true // the native controller sizes both sets of a blue-green release, in proportion
		}
	case *appsv1.ReplicaSet:
		c.images[o.Labels[hashKey]] = imageOfSet(o)
		was, _ := old.(*appsv1.ReplicaSet)
		is, _ := next.(*appsv1.ReplicaSet)
		c.checkAvailability(actor, was, is)
		c.noteUnheldUpdate(actor, old, next)
		c.checkLastReadyPods(actor, old, next)
		c.checkAbortKeepsStable(actor, was, is)
	}
	c.noteRouteTargets(actor, newer(old, next))
	if old != nil && next != nil {
		c.checkUpdate(actor, old, next)
	}
}

func (c *invariants) checkUpdate(actor string, old, next object.Object) {
	switch was := old.(type) {
	case *rollouts.BatchRelease:
		c.gates.noteReadyBatches(was, next.(*rollouts.BatchRelease))
	case *rollouts.Rollout:
		c.gates.checkPauses(c, actor, was, next.(*rollouts.Rollout))
		c.checkRoutingRests(next.(*rollouts.Rollout))
		c.checkDecisions(actor, was, next.(*rollouts.Rollout))
		c.checkVerdicts(actor, was, next.(*rollouts.Rollout))
		c.checkAbortedNotReleased(actor, next.(*rollouts.Rollout))
	}
}

func (c *invariants) deployment() *appsv1.Deployment {
	for _, d := range listOf[*appsv1.Deployment](c.w.store.objects) {
		return d
	}
	return nil
}

func (c *invariants) workload() object.Object {
	for _, o := range workloads(c.w.store.objects) {
		return o
	}
	return nil
}

// checkBetweenMoves checks the invariants that hold between two moves.
func (c *invariants) checkBetweenMoves() {
	c.endExcuses()
	if c.excusesPodFailures || c.excusesSizeZero || c.excusesLostBatch || c.workload() == nil {
		clear(c.promises.keptUntil)
		return
	}
	c.checkGracePeriod()
	for _, target := range c.listRouteTargets() {
		if target.able == 0 {
			c.violate("traffic", "%s, which has no ready pod", target.what)
		}
	}
}

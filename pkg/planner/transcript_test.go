// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// transcript records what happens, for review.
type transcript struct {
	w     *world
	start time.Time
	out   strings.Builder
	// hashes are pairs: a revision hash and the image of the revision.
	hashes []string
	// silent suppresses the output, for example during the setup of a story.
	silent bool
	// showsUserActions also records actions of users. A script contains them already.
	showsUserActions bool
	// labels also records pod labels of releases without a name.
	labels bool
	// foretold compares the writes with a forecast, or is nil.
	foretold *forecastCheck
}

func (t *transcript) did(what string) {
	if t.showsUserActions {
		t.printLine("user", "%s", what)
	}
}

func (t *transcript) printLine(who, format string, args ...any) {
	t.print(t.clock(), who, format, args...)
}
func (t *transcript) printUnder(what, format string, args ...any) {
	t.print("", what, format, args...)
}

func (t *transcript) clock() string {
	d := t.w.now.Sub(t.start)
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

func (t *transcript) print(at, who, format string, args ...any) {
	if t.silent {
		return
	}
	text := fmt.Sprintf(format, args...)
	text = strings.NewReplacer(t.hashes...).Replace(text)
	t.out.WriteString(strings.TrimRight(fmt.Sprintf("%-5s %-9s %s", at, who, text), " ") + "\n")
}

func (t *transcript) planned(r *rollouts.Rollout, p planner.Decision) {
	if change := describeMovement(r.Status, p.Status, stepsOf(r)); change != "" {
		t.printLine("rollout", "%s", change)
	}
	if isStalled(r.Status) && !isStalled(p.Status) {
		t.printLine("rollout", "is no longer stalled")
	}
	if was, is := describeFailing(r.Status), describeFailing(p.Status); is != was {
		t.printUnder("failing", "%s", cmp.Or(is, "no longer"))
	}
	if was, is := describeRoutability(r.Status), describeRoutability(p.Status); is != was {
		t.printUnder("routable", "%s", cmp.Or(is, "again"))
	}
	if was, is := describeMeasurability(r.Status), describeMeasurability(p.Status); is != was {
		t.printUnder("measurable", "%s", cmp.Or(is, "to be tried"))
	}
	t.printEvents(p.Events)
}

func (t *transcript) printEvents(announced []planner.Event) {
	for _, e := range announced {
		if e.Warning {
			t.printUnder("warning", "%s: %s", e.Reason, e.Message)
		} else {
			t.printUnder("event", "%s", e.Reason)
		}
	}
}

// describeFailing returns the known cause for which a release makes no progress.
func describeFailing(s rollouts.RolloutStatus) string {
	if c := s.Failing(); c != nil {
		return c.Reason
	}
	return ""
}

// describeRoutability returns why a release cannot be routed.
func describeRoutability(s rollouts.RolloutStatus) string {
	if c := s.Condition(rollouts.ConditionRoutable); c != nil {
		return c.Reason + ": " + c.Message
	}
	return ""
}

// describeMeasurability returns the result of trying the checks.
func describeMeasurability(s rollouts.RolloutStatus) string {
	if c := s.Condition(rollouts.ConditionMeasurable); c != nil && c.Status != metav1.ConditionUnknown {
		return c.Reason + ": " + c.Message
	}
	return ""
}

func isStalled(s rollouts.RolloutStatus) bool {
	c := s.Condition(rollouts.ConditionStalled)
	return c != nil && c.Status == metav1.ConditionTrue
}

func stepsOf(r *rollouts.Rollout) int {
	_, release := r.Spec.Strategy.Active()
	return len(release.Steps)
}

// describeMovement describes the change from one status to the next, or returns "".
func describeMovement(old, next rollouts.RolloutStatus, steps int) string {
	was, is := headOf(old), headOf(next)
	from, to := progressOf(old), progressOf(next)
	place := placeOf(next, to, steps)
	switch {
	case was != is:
		return strings.TrimSuffix(was+" -> "+is+", "+place, ", ")
	case from.FinalisingStep != to.FinalisingStep && (place == "" || from.State == to.State && to.FinalisingStep != ""):
		return "-> " + string(to.FinalisingStep)
	case place == "":
		return ""
	case from.CurrentStepIndex != to.CurrentStepIndex, from.UpdateRevision != to.UpdateRevision:
		return "-> " + place
	case from.State != to.State:
		return string(from.State) + " -> " + place
	default:
		return ""
	}
}

func headOf(s rollouts.RolloutStatus) string {
	if s.Phase == rollouts.PhaseProgressing {
		return string(s.Phase) + "/" + string(s.Activity())
	}
	return string(s.Phase)
}

func placeOf(s rollouts.RolloutStatus, p rollouts.Progress, steps int) string {
	if s.Phase != rollouts.PhaseProgressing {
		return ""
	}
	place := fmt.Sprintf("step %d/%d %s", p.CurrentStepIndex, steps, p.State)
	if p.FinalisingStep != "" {
		place += " (" + string(p.FinalisingStep) + ")"
	}
	return place
}

func progressOf(s rollouts.RolloutStatus) rollouts.Progress {
	if p := s.Active(); p != nil {
		return *p
	}
	return rollouts.Progress{}
}

func (t *transcript) batchPlanned(p batchPlan) { t.printEvents(p.Events) }

func (t *transcript) wroteBatch(old, next object.Object) {
	b, ok := next.(*rollouts.BatchRelease)
	if !ok {
		return
	}
	is, was := b.Status, rollouts.BatchReleaseStatus{}
	if b, ok := old.(*rollouts.BatchRelease); ok {
		was = b.Status
	}
	switch {
	case is.Phase == rollouts.PhaseProgressing &&
		(was.Phase != is.Phase || was.BatchState != is.BatchState || was.CurrentBatch != is.CurrentBatch):
		t.printLine("batch", "-> batch %d %s", is.CurrentBatch, is.BatchState)
	case was.Phase != is.Phase:
		t.printLine("batch", "-> %s", is.Phase)
	}
	if is.Message != was.Message && is.Message != "" {
		t.printUnder("says", "%s", is.Message)
	}
}

func (t *transcript) sized(sizes.Scale) {}
func (t *transcript) acted(a planner.Effect) {
	a = unwrapAction(a)
	switch a.(type) {
	case planner.StoreBatchStatus, planner.ScaleReplicaSets: // their writes are recorded
	case planner.LabelPods:
		if t.showsPodLabels() {
			t.printUnder("act", "%s", a)
		}
	default:
		t.printUnder("act", "%s", a)
	}
}

// unwrapAction returns an action on a BatchRelease, even if the Rollout controller carries it out.
func unwrapAction(a planner.Effect) planner.Effect {
	if on, ok := a.(planner.OnBatch); ok {
		return on.Effect
	}
	return a
}

// showsPodLabels reports whether pod labels are recorded. Without a release name, the labels give
// no more information than the batches.
func (t *transcript) showsPodLabels() bool {
	named := func(o object.Object) bool { return o.GetLabels()[rollouts.LabelRolloutID] != "" }
	return t.labels || slices.ContainsFunc(workloads(t.w.store.objects), named)
}

func (t *transcript) died(who, before string) { t.printLine(who, "crash before its %s", before) }

func (t *transcript) wrote(actor string, old, next object.Object) {
	if t.foretold != nil {
		t.foretold.compareAfterWrite(old, next)
	}
	t.learnRevision(next)
	switch set := newer(old, next).(type) {
	case *appsv1.ReplicaSet:
		t.wroteSet(actor, set, old, next)
	case *appsv1.Deployment, *appsv1.StatefulSet, *appsv1.DaemonSet, *workload.CloneSet:
		t.wroteWorkload(actor, old, next)
	case *corev1.Pod:
		t.wrotePod(actor, set, old, next)
	case *rollouts.BatchRelease:
		t.wroteBatch(old, next)
	case *autoscalingv2.HorizontalPodAutoscaler:
		t.printLine(actor, "autoscaler/%s scales %s", set.Name, set.Spec.ScaleTargetRef.Name)
	case *rollouts.Rollout:
		if next == nil {
			t.printLine(actor, "rollout/%s is gone", old.GetName())
		}
	}
}

func (t *transcript) wroteWorkload(actor string, old, next object.Object) {
	o := newer(old, next)
	name, n := string(keyOf(o).kind)+"/"+o.GetName(), nativeOf(o)
	switch {
	case actor == "user":
	case next == nil:
		t.printLine(actor, "%s deleted", name)
	case old == nil:
		t.printLine(actor, "%s made with %d", name, replicasOf(next))
	case n.describeStrategy(old) != n.describeStrategy(next):
		what := n.describeStrategy(next)
		if tag := tagOf(templateOf(next)); tag != tagOf(templateOf(old)) {
			what = tag + ", " + what
		}
		t.printLine(actor, "%s %s", name, what)
	case keyOf(o).kind == kindDaemonSet && tagOf(templateOf(old)) != tagOf(templateOf(next)):
		t.printLine(actor, "%s %s", name, tagOf(templateOf(next)))
	case replicasOf(old) != replicasOf(next):
		t.printLine(actor, "%s %d -> %d", name, replicasOf(old), replicasOf(next))
	}
}

func newer(old, next object.Object) object.Object {
	if next == nil {
		return old
	}
	return next
}

func (t *transcript) wroteSet(actor string, set *appsv1.ReplicaSet, old, next object.Object) {
	was, _ := old.(*appsv1.ReplicaSet)
	switch {
	case next == nil:
		t.printLine(actor, "%s deleted", set.Name)
	case was == nil:
		t.printLine(actor, "%s made with %d", set.Name, *set.Spec.Replicas)
	case *was.Spec.Replicas != *set.Spec.Replicas:
		t.printLine(actor, "%s %d -> %d", set.Name, *was.Spec.Replicas, *set.Spec.Replicas)
	case was.Status.ReadyReplicas < set.Status.ReadyReplicas,
		was.Status.ReadyReplicas > set.Status.ReadyReplicas && was.Status.Replicas == set.Status.Replicas:
		t.printLine(actor, "%s %d of %d ready", set.Name, set.Status.ReadyReplicas, *set.Spec.Replicas)
	}
}

func (t *transcript) wrotePod(actor string, p *corev1.Pod, old, next object.Object) {
	was, _ := old.(*corev1.Pod)
	switch {
	case next == nil:
	case was == nil:
		t.printLine(actor, "%s made of %s", p.Name, podTag(p))
	case isTerminating(p) && !isTerminating(was):
		t.printLine(actor, "%s of %s deleted", p.Name, podTag(p))
	case isReady(p) && !isReady(was):
		t.printLine(actor, "%s ready", p.Name)
	case isReady(was) && !isReady(p):
		t.printLine(actor, "%s not ready", p.Name)
	}
}

// learnRevision records the image of a revision.
func (t *transcript) learnRevision(o object.Object) {
	if set, ok := o.(*appsv1.ReplicaSet); ok && set.Labels[hashKey] != "" && !slices.Contains(t.hashes, set.Labels[hashKey]) {
		t.hashes = append(t.hashes, set.Labels[hashKey], tagOf(&set.Spec.Template)) // the label was used before
	}
	if o == nil || natives[keyOf(o).kind] == nil {
		return
	}
	template := templateOf(o)
	tag, hash := tagOf(template), workload.TemplateHash(template)
	switch at := slices.Index(t.hashes, "n"+hash); {
	case at < 0:
		t.hashes = append(t.hashes, "n"+hash, tag, hash, tag)
	case t.hashes[at+1] != tag: // another template has the same hash
		t.hashes = append([]string{planner.DistinctName(hash, workload.Digest(template)), tag}, t.hashes...)
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// cloneSet releases a CloneSet by its partition: Kruise brings as many pods to the
// live template as that leaves, in place where the owner asks for it.
type cloneSet struct{ baseAdapter }

var _ Adapter = cloneSet{}

// all is the share that leaves every pod as it is.
var all = intstr.FromString("100%")

// cloneSetView is a CloneSet with its pods and revisions by role.
// Revisions are named by the end of their names, as pods are labelled.
type cloneSetView struct {
	set     *CloneSet
	history history
	pods    []*corev1.Pod
	// live is the revision of the live template, and update the one to release;
	// they differ while that is set aside. Empty until Kruise has seen the template.
	live, update string
	// aside is the update revision while its template is set aside, else empty.
	aside string
	// stable served before.
	stable string
}

func sortClones(c *CloneSet, owned []object.Object) cloneSetView {
	o := cloneSetView{set: c}
	o.history = historyOf(c, owned, func(r *appsv1.ControllerRevision) string { return short(r.Name) })
	o.pods = countedPods(c, owned)
	named := ""
	if o.settled() {
		named = short(c.Status.UpdateRevision)
	}
	o.live = o.history.live(&c.Spec.Template, named)
	pods := map[string]int32{}
	for _, p := range o.pods {
		pods[cloneOf(p)]++
	}
	o.stable = o.history.served(short(c.Status.CurrentRevision), o.live, pods)
	_, driven := readOwner(c)
	if named := c.Labels[rollouts.LabelStableRevision]; named != "" && (driven || held(c)) {
		o.stable = named
	}
	o.update = o.live
	if v, _ := readDriving(c); v.SetAsideRevision != "" && o.live == o.stable {
		o.update, o.aside = v.SetAsideRevision, v.SetAsideRevision
	}
	return o
}

func countedPods(c *CloneSet, owned []object.Object) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, o := range owned {
		if p, ok := o.(*corev1.Pod); ok && metav1.IsControlledBy(p, c) && counts(p) {
			pods = append(pods, p)
		}
	}
	return pods
}

// short is the part of the name of a revision that pods are labelled with.
func short(revision string) string { return revision[strings.LastIndex(revision, "-")+1:] }

// cloneOf is the revision of a pod.
func cloneOf(p *corev1.Pod) string {
	if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" {
		return hash
	}
	return short(p.Labels[appsv1.ControllerRevisionHashLabelKey])
}

func (o cloneSetView) settled() bool { return o.set.Status.ObservedGeneration >= o.set.Generation }

func (o cloneSetView) replicas() int32 {
	if o.set.Spec.Replicas == nil {
		return 1
	}
	return *o.set.Spec.Replicas
}

// Observe implements Adapter.
func (cloneSet) Observe(obj object.Object, owned []object.Object) planner.Workload {
	o := sortClones(obj.(*CloneSet), owned)
	c := o.set
	w := planner.Workload{
		Generation: c.Generation, Settled: o.settled(), Replicas: o.replicas(),
		Labelled: c.Labels[rollouts.LabelWorkloadType] == cloneSetLabel, Held: held(c), HasManagedFields: hasKeys(c),
		Paused:         c.Spec.UpdateStrategy.Paused || stops(c.Spec.UpdateStrategy.Partition, o.replicas()),
		LastStays:      o.lastStays(),
		StableRevision: o.stable,
		UpdateRevision: o.update, PodTemplateHash: o.update, LiveRevision: o.live,
		AtStable: o.live != "" && o.update == o.stable, RolloutID: rolloutID(c), Target: readTarget(c),
		Revisions: o.history.names(), Unavailable: o.unavailable(),
		Rolling: !held(c) && o.rolling(),
	}
	o.count(&w)
	w.Native = w.Target == nil || o.back(*w.Target)
	w.TargetApplied = w.Target != nil && len(change(c, o.aimed(*w.Target))) == 0
	w.RevisionKind = controllerRevision
	w.StableGone = o.stable != "" && o.history[o.stable] == nil
	w.StableTemplate, w.BackByTemplate = digest(o.history.template(o.stable)), true
	return w
}

// rolling reports whether pods of another template are still to be replaced.
func (o cloneSetView) rolling() bool {
	st := o.set.Status
	return !o.settled() || st.CurrentRevision != st.UpdateRevision || st.UpdatedReplicas < st.Replicas ||
		slices.ContainsFunc(o.pods, func(p *corev1.Pod) bool { return cloneOf(p) != o.live })
}

// count is the facts about pods. What Kruise has not counted yet, others do not
// see either; it knows better when a pod is done that it updates in place.
func (o cloneSetView) count(w *planner.Workload) {
	every, ready := map[string]int32{}, map[string]int32{}
	for _, p := range o.pods {
		every[cloneOf(p)]++
		if isReady(p) {
			ready[cloneOf(p)]++
		}
	}
	for revision, n := range every {
		if revision != o.update {
			w.StableReplicas += n
		}
		if revision != o.update && revision != o.stable {
			w.SupersededReplicas += n
		}
	}
	if st := o.set.Status; o.settled() && o.live != "" {
		every[o.live] = min(every[o.live], st.UpdatedReplicas)
		ready[o.live] = min(ready[o.live], every[o.live], st.UpdatedReadyReplicas)
	}
	w.StableReadyReplicas, w.LiveReadyReplicas = ready[o.stable], ready[o.live]
	w.UpdatedReplicas, w.UpdatedReadyReplicas = every[o.update], ready[o.update]
}

// unavailable is how many pods Kruise replaces at once. Where none may be missing
// it makes one more first, so that there is one at least.
func (o cloneSetView) unavailable() int32 {
	u := o.set.Spec.UpdateStrategy
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(u.MaxUnavailable, intstr.FromString("20%")), int(o.replicas()), u.MaxSurge == nil)
	if err != nil {
		return 1
	}
	return max(int32(n), 1) //nolint:gosec // bounded by replicas
}

// leaves is how many pods a partition leaves at the earlier revision. Of more than
// one pod only the exact share "100%" means all.
func leaves(partition *intstr.IntOrString, replicas int32) int32 {
	if partition == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(partition, int(replicas), true)
	if err != nil {
		return 0
	}
	left := min(max(int32(n), 0), replicas) //nolint:gosec // bounded by replicas
	if partition.Type == intstr.String && *partition != all && replicas > 1 {
		left = min(left, replicas-1)
	}
	return left
}

// stops reports whether a partition lets no pod be replaced, however many there will be.
func stops(partition *intstr.IntOrString, replicas int32) bool {
	return partition != nil && *partition == all || leaves(partition, replicas) >= max(replicas, 1)
}

// keeps is the partition that leaves n pods: a share where that is exact, which
// stays right for as long as it takes us to see that the size has changed.
func keeps(n, replicas int32) intstr.IntOrString {
	switch {
	case n >= replicas:
		return all
	case n <= 0:
		return intstr.FromInt32(0)
	}
	share := intstr.FromString(fmt.Sprintf("%d%%", n*100/replicas))
	if leaves(&share, replicas) == n {
		return share
	}
	return intstr.FromInt32(n)
}

// Changed implements Adapter. Without pods there is nothing to hold, and Kruise
// takes the newest template for the stable one at once.
func (a cloneSet) Changed(oldObj, newObj object.Object) bool {
	return (a.Rolls(oldObj, newObj) || renamed(oldObj, newObj)) && !isZero(newObj.(*CloneSet).Spec.Replicas)
}

// Rolls implements Adapter.
func (cloneSet) Rolls(oldObj, newObj object.Object) bool {
	return !samePods(&oldObj.(*CloneSet).Spec.Template, &newObj.(*CloneSet).Spec.Template)
}

// Sized implements Adapter.
func (cloneSet) Sized(oldObj, newObj object.Object, isHeld bool) string {
	was := oldObj.(*CloneSet)
	return empties(was.Spec.Replicas, newObj.(*CloneSet).Spec.Replicas, was.Status.Replicas, isHeld)
}

// Hold implements Adapter. The owner's own partition is kept for the end. Of one that is
// held, as by another door of admission, all is kept already, and what stands there is ours.
func (cloneSet) Hold(obj object.Object, by string) {
	c := obj.(*CloneSet)
	own := ownersClones{Partition: c.Spec.UpdateStrategy.Partition, Paused: c.Spec.UpdateStrategy.Paused}
	if held(c) {
		own = clonesOwner(c)
	}
	keepClones(c, own)
	c.Spec.UpdateStrategy.Partition = new(all)
	writeHeld(c, by)
}

// Keep implements Adapter. Another template goes nowhere until a step says how
// far. What the owner writes of the strategy is given back in the end.
func (cloneSet) Keep(oldObj, newObj object.Object) {
	was, c := oldObj.(*CloneSet), newObj.(*CloneSet)
	KeepRecords(was, c)
	wrote, before, own := &c.Spec.UpdateStrategy, was.Spec.UpdateStrategy, clonesOwner(c)
	if !equality.Semantic.DeepEqual(wrote.Partition, before.Partition) {
		own.Partition = wrote.Partition
		keepClones(c, own)
	}
	if wrote.Paused != before.Paused {
		own.Paused = wrote.Paused
		keepClones(c, own)
	}
	wrote.Partition, wrote.Paused = before.Partition, before.Paused
	keepLimit(was, c, &c.Spec.RevisionHistoryLimit, was.Spec.RevisionHistoryLimit)
	if !samePods(&was.Spec.Template, &c.Spec.Template) {
		wrote.Partition = new(all)
		setAside(c, "")
	}
}

// ownersClones is the value of the annotation that keeps what the owner wrote. It
// is absent where that is the default.
type ownersClones struct {
	Partition *intstr.IntOrString `json:"partition,omitempty"`
	Paused    bool                `json:"paused,omitempty"`
	// What follows is kept while pods surge; the seconds are there then.
	MaxUnavailable  *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	MaxSurge        *intstr.IntOrString `json:"maxSurge,omitempty"`
	MinReadySeconds *int32              `json:"minReadySeconds,omitempty"`
}

// keepClones takes no partition of ours for the owner's, and leaves out the default.
func keepClones(c *CloneSet, o ownersClones) {
	if o.Partition != nil && (*o.Partition == all || *o.Partition == intstr.FromInt32(0)) {
		o.Partition = nil
	}
	c.SetAnnotations(without(c.Annotations, rollouts.AnnotationOriginalStrategy))
	if o != (ownersClones{}) {
		annotate(c, rollouts.AnnotationOriginalStrategy, encode(o))
	}
}

// clonesOwner is the default where the annotation is unreadable.
func clonesOwner(c *CloneSet) ownersClones {
	var o ownersClones
	if err := json.Unmarshal([]byte(c.Annotations[rollouts.AnnotationOriginalStrategy]), &o); err != nil {
		return ownersClones{}
	}
	return o
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

const daemonSetLabel = "daemonset"

var daemonSetKind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// daemonSet releases a DaemonSet by its update strategy OnDelete: its native
// controller replaces no pod, but makes one of the live template on each node that
// has none. So old pods are deleted here, as many as a step asks for.
type daemonSet struct{ baseAdapter }

var _ Adapter = daemonSet{}

// Observe implements Adapter. The size is the number of nodes that are to have a pod.
func (daemonSet) Observe(obj object.Object, owned []object.Object) planner.Workload {
	p := place(obj.(*appsv1.DaemonSet), owned, "")
	w := p.facts()
	w.Paused, w.UnsupportedReason = onDelete(p.set), daemonSet{}.UnsupportedReason(p.set)
	w.TargetApplied = w.Target != nil && len(change(p.set, p.aimed(*w.Target))) == 0 && len(p.due(*w.Target)) == 0
	return w
}

// facts are those that do not depend on how pods are replaced. A pod that comes is
// of the live template.
func (p daemonSetView) facts() planner.Workload {
	d := p.set
	w := planner.Workload{
		Generation: d.Generation, Settled: p.settled(), Replicas: p.size(),
		Labelled: d.Labels[rollouts.LabelWorkloadType] == daemonSetLabel, Held: held(d), PendingEdit: hasPendingEdit(d), HasManagedFields: hasKeys(d), NewPodsUseTemplate: true,
		StableRevision: p.stable,
		UpdateRevision: p.update, PodTemplateHash: p.update, LiveRevision: p.live,
		AtStable: p.live != "" && p.update == p.stable, RolloutID: rolloutID(d), Target: readTarget(d),
		Revisions: p.history.names(), Unavailable: unavailable(d),
		Rolling: !held(d) && p.rolling(), StableGone: p.stable != "" && p.history[p.stable] == nil, RevisionKind: controllerRevision,
	}
	p.count(&w)
	w.StableTemplate, w.BackByTemplate = digest(p.history.template(p.stable)), true
	w.Native = w.Target == nil || w.Target.Abort && p.allStable()
	return w
}

// rolling reports whether pods of another template are still to be replaced.
func (p daemonSetView) rolling() bool {
	return p.size() > 0 && (!p.settled() || p.set.Status.UpdatedNumberScheduled < p.size() || len(p.others()) > 0)
}

// count is the facts about pods. What the native controller has not counted yet,
// others do not see either.
func (p daemonSetView) count(w *planner.Workload) {
	w.Lingers = keptPod(p.pods)
	all, ready := census(p.pods)
	for revision, n := range all {
		if revision != p.update {
			w.StableReplicas += n
		}
		if revision != p.update && revision != p.stable {
			w.SupersededReplicas += n
		}
	}
	w.StableReadyReplicas, w.LiveReadyReplicas = ready[p.stable], ready[p.live]
	w.UpdatedReplicas, w.UpdatedReadyReplicas = all[p.update], ready[p.update]
	if p.settled() && p.live == p.update {
		w.UpdatedReplicas = min(w.UpdatedReplicas, p.set.Status.UpdatedNumberScheduled)
		w.UpdatedReadyReplicas = min(w.UpdatedReadyReplicas, w.UpdatedReplicas)
	}
}

// UnsupportedReason implements Adapter. A surge starts the new pod of a node
// before the old one goes; whoever deletes the old one first breaks that promise.
func (daemonSet) UnsupportedReason(obj object.Object) string {
	d := obj.(*appsv1.DaemonSet)
	if held(d) || !surges(d) {
		return ""
	}
	return "the DaemonSet has spec.updateStrategy.rollingUpdate.maxSurge, so that no node is ever without its pod, " +
		"and to release in steps pods are deleted before new ones start; set maxSurge to 0 and maxUnavailable to how many nodes may be without one"
}

func surges(d *appsv1.DaemonSet) bool {
	u := d.Spec.UpdateStrategy.RollingUpdate
	if u == nil || u.MaxSurge == nil || onDelete(d) {
		return false
	}
	return *u.MaxSurge != intstr.FromInt32(0) && *u.MaxSurge != intstr.FromString("0%")
}

// unavailable is how many pods may be missing at once, as the native controller
// reckons it. One may be, or nothing could be replaced.
func unavailable(d *appsv1.DaemonSet) int32 {
	u := d.Spec.UpdateStrategy.RollingUpdate
	if u == nil || u.MaxUnavailable == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, int(d.Status.DesiredNumberScheduled), true)
	if err != nil {
		return 1
	}
	return max(int32(n), 1) //nolint:gosec // bounded by the number of nodes, or what the owner wrote
}

// Changed implements Adapter. What a strategy with a surge asks for is not to be had
// here. Where no node has a pod the template is held all the same, until the controller
// sees that: at the door only a status would say so.
func (a daemonSet) Changed(oldObj, newObj object.Object) bool {
	was, d := oldObj.(*appsv1.DaemonSet), newObj.(*appsv1.DaemonSet)
	return (a.Rolls(was, d) || renamed(was, d)) && !surges(d)
}

// Rolls implements Adapter.
func (daemonSet) Rolls(oldObj, newObj object.Object) bool {
	return !samePods(&oldObj.(*appsv1.DaemonSet).Spec.Template, &newObj.(*appsv1.DaemonSet).Spec.Template)
}

// Hold implements Adapter. How many pods may be missing is left where it is, and
// goes on to count. Another door of admission may have held it a moment ago.
func (daemonSet) Hold(obj object.Object, by string) {
	d := obj.(*appsv1.DaemonSet)
	if held(d) && onDelete(d) {
		keepOwners(d, ownersStrategy{Type: ownersType(d)})
	} else {
		stop(d)
	}
	writeHeld(d, by)
}

// stop keeps what the owner wrote of the type for the end.
func stop(d *appsv1.DaemonSet) {
	own := ownersStrategy{}
	if onDelete(d) {
		own.Type = string(appsv1.OnDeleteDaemonSetStrategyType)
	}
	keepOwners(d, own)
	d.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
}

// ownersType is what was kept of the type.
func ownersType(d *appsv1.DaemonSet) string {
	if own := owners(d).Type; own == string(appsv1.OnDeleteDaemonSetStrategyType) {
		return own
	}
	return ""
}

func onDelete(d *appsv1.DaemonSet) bool {
	return d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
}

// Keep implements Adapter. Another template goes nowhere until a step says how
// far, but to nodes that have no pod. What the owner writes of the strategy is
// given back in the end. An abort waits for available pods, so that when they count as
// that is settled before.
func (daemonSet) Keep(oldObj, newObj object.Object) {
	was, d := oldObj.(*appsv1.DaemonSet), newObj.(*appsv1.DaemonSet)
	KeepRecords(was, d)
	d.Spec.MinReadySeconds = was.Spec.MinReadySeconds
	if !onDelete(d) {
		stop(d)
	}
	keepLimit(was, d, &d.Spec.RevisionHistoryLimit, was.Spec.RevisionHistoryLimit)
	if !samePods(&was.Spec.Template, &d.Spec.Template) {
		setAside(d, "")
	}
}

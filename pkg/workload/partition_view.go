// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// A partition cannot undo an update: the controller never replaces a pod by one of an earlier
// template. So for an abort Weir makes the stable template the live one, and records the owner's
// template as set aside. Weir does the same at size 0, where the controller takes the live template
// for the stable one and would create every later pod from it.

// view is a partitioned workload with its pods and revisions by role.
type view struct {
	partitioned
	fields
	obj     object.Object
	hold    Hold
	history history
	// pods are the existing pods of the workload. If they are ordered, places has the place of each
	// pod, counted from 0. Missing pods have no entry.
	pods   []*corev1.Pod
	places []int32
	// size is the desired number of pods.
	size int32
	// isStatusBehind reports whether the status counts fewer pods than exist.
	isStatusBehind bool
	// hasSurplusPods reports whether pods exist whose ordinals are beyond the size.
	hasSurplusPods bool
	// live is the revision of the live template. update is the revision to release. They differ
	// while the update template is set aside. Both are empty until the controller has observed the
	// template.
	live, update string
	// aside is the update revision while its template is set aside, and empty otherwise.
	// asideTemplate is the digest of that template.
	aside, asideTemplate string
	// stable is the revision that served before the release.
	stable string
}

func (a partitioned) view(obj object.Object, owned []object.Object, hold Hold) view {
	v := view{partitioned: a, fields: a.subjectOf(obj).fields(), obj: obj, hold: hold, history: historyOf(obj, owned, a.revisionName)}
	v.size = orElse(v.replicas, 1)
	var pods []*corev1.Pod
	for _, o := range owned {
		if p, ok := o.(*corev1.Pod); ok && metav1.IsControlledBy(p, obj) {
			pods = append(pods, p)
		}
	}
	a.arrangePods(&v, pods)
	inStatus := ""
	if a.revisionInStatus && v.isObserved() {
		inStatus = v.updateRevision
	}
	v.live = v.history.liveRevision(v.fields, inStatus)
	v.stable = cmp.Or(hold.Stable, v.servedRevision())
	v.update = v.live
	if aside := hold.strategy.aside(); aside.Name != "" && v.live == v.stable {
		v.update, v.aside, v.asideTemplate = aside.Name, aside.Name, aside.Template
	}
	return v
}

// servedRevision returns the revision that served before the live one, judged by pods and status.
// Pods with ordinals count even while they are being deleted. For a kind whose status names no
// current revision, it is the live one unless pods show another.
func (v view) servedRevision() string {
	pods := map[string]int32{}
	for _, p := range v.pods {
		if v.ordered || isActive(p) {
			pods[v.podRevision(p)]++
		}
	}
	current := v.currentRevision
	if v.newPodsUseTemplate {
		current = v.live
	}
	return v.history.servedRevision(current, v.live, pods)
}

func (v view) isObserved() bool { return v.observedGeneration >= v.obj.GetGeneration() }

// keepsLastStablePod reports whether the last pod must stay at the stable revision until the end of
// the release. As soon as every pod runs the update revision, the controller takes it for the
// current revision and creates all pods from it.
func (v view) keepsLastStablePod() bool { return !v.newPodsUseTemplate && v.update != v.stable }

// unsupportedReason returns why the workload cannot be released; empty if it can.
func (v view) unsupportedReason() string {
	if v.hold.Held {
		return ""
	}
	why := v.partitioned.unsupportedReason(v.obj)
	if why == "" && v.missingField != nil {
		why = v.explainHas(v.missingField(v))
	}
	return why
}

// isRolling reports whether pods of another template still have to be replaced.
func (v view) isRolling() bool {
	behind := !v.isObserved() || v.updated < v.total || len(v.outdated()) > 0
	if v.newPodsUseTemplate {
		return behind && v.size > 0
	}
	return behind || v.currentRevision != v.updateRevision
}

// outdated returns the active pods of other templates than the live one, whatever the status counts.
func (v view) outdated() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(v.pods), func(p *corev1.Pod) bool { return !isActive(p) || v.podRevision(p) == v.live })
}

// isStable reports whether the live template is the stable one, and every pod runs it.
func (v view) isStable() bool { return v.live == v.stable && len(v.outdated()) == 0 }

// countPods sets the facts about pods. It does not count a pod as updated before the controller
// does, because other clients rely on the status.
func (v view) countPods(w *planner.Workload) {
	all, ready := v.countByRevision()
	for revision, n := range all {
		if revision != v.update {
			w.StableReplicas += n
		}
		if revision != v.update && revision != v.stable {
			w.SupersededReplicas += n
		}
	}
	w.SupersededKept, w.DeletionBlocked, w.HasSurplusPods = v.countBehind(), blockedPodDeletion(v.pods), v.hasSurplusPods
	if v.inPlace && v.isObserved() && v.live != "" {
		all[v.live] = min(all[v.live], v.updated)
		ready[v.live] = min(ready[v.live], all[v.live], v.updatedReady)
	}
	w.StableReadyReplicas, w.LiveReadyReplicas = ready[v.stable], ready[v.live]
	w.UpdatedReplicas, w.UpdatedReadyReplicas = all[v.update], ready[v.update]
	if v.isObserved() && v.live == v.update {
		w.UpdatedReplicas = min(w.UpdatedReplicas, v.updated)
		w.UpdatedReadyReplicas = min(w.UpdatedReadyReplicas, w.UpdatedReplicas)
	}
}

// countByRevision counts all active pods, and the ready ones, by revision.
func (v view) countByRevision() (all, ready map[string]int32) {
	all, ready = map[string]int32{}, map[string]int32{}
	for _, p := range v.pods {
		if !isActive(p) {
			continue
		}
		all[v.podRevision(p)]++
		if isReady(p) {
			ready[v.podRevision(p)]++
		}
	}
	return all, ready
}

// forTarget returns the object with the template and the strategy that a target needs, and the
// revision that is set aside for it.
func (v view) forTarget(to planner.Target) (want object.Object, aside planner.Revision) {
	want, aside = copyOf(v.obj), v.hold.strategy.aside()
	s := v.subjectOf(want)
	if p, ok := s.(pausable); ok {
		p.resume()
	}
	switch back := v.needsStableTemplate(to); {
	case back && v.hasStableTemplate():
		if v.live != v.stable {
			aside = v.setStableTemplate(want)
		}
		s.setPartition(v.partitionFor(to, true))
	case back || to.Abort:
		s.setPartition(frozen)
	case v.aside == "" && !v.newPodsUseTemplate:
		s.setPartition(v.partitionFor(to, false))
	case v.newPodsUseTemplate, v.isObserved() && v.currentRevision == v.stable:
		v.setUpdateTemplate(want)
		aside = planner.Revision{}
		s.setPartition(v.partitionFor(to, false))
	}
	return want, aside
}

// partitionFor returns the partition for a target. Forward, as many pods run the update revision as
// the target says. On the way back, that many pods keep it.
func (v view) partitionFor(to planner.Target, isBack bool) int32 {
	share := to.LimitFor(&planner.Workload{Replicas: v.size, KindTraits: planner.KindTraits{KeepsLastStablePod: v.keepsLastStablePod()}})
	switch {
	case v.ordered && isBack:
		return partitionKeeping(v, to.Limit(v.size))
	case v.ordered:
		return partitionReleasing(v, share)
	case isBack:
		return share
	default:
		return v.size - share
	}
}

// podsToDelete returns the pods that Weir deletes for a target.
func (v view) podsToDelete(to planner.Target) []*corev1.Pod {
	if v.selectDeletions == nil {
		return nil
	}
	return v.selectDeletions(v, to)
}

// hasStableTemplate reports whether the stable template is the live one, or can be set.
func (v view) hasStableTemplate() bool {
	return v.live == v.stable || v.live != "" && v.history.template(v.stable) != nil
}

// setStableTemplate makes the stable template the live one, and returns the update revision, which
// is set aside by this change.
func (v view) setStableTemplate(want object.Object) planner.Revision {
	v.setTemplate(want, v.stable)
	return planner.Revision{Name: v.live, Template: withUnknown(digestWithLabels(v.template), unknownIn(v.obj))}
}

// setTemplate copies the template of a revision, unknown fields included, into the spec of want.
func (v view) setTemplate(want object.Object, revision string) {
	f := v.subjectOf(want).fields()
	*f.template = *v.history.template(revision)
	if f.unknown != nil {
		*f.unknown = v.history.unknown(revision)
	}
}

// setUpdateTemplate makes the template that is set aside the live one again. If its
// ControllerRevision is gone, or was replaced by one of the same name with another template,
// the live template stays.
func (v view) setUpdateTemplate(want object.Object) {
	digest := v.history.digest(v.aside)
	if digest != "" && (v.asideTemplate == "" || digest == v.asideTemplate) {
		v.setTemplate(want, v.aside)
	}
}

// needsStableTemplate reports whether the stable template must be the live one for a target.
func (v view) needsStableTemplate(to planner.Target) bool {
	switch {
	case v.newPodsUseTemplate:
		return to.Abort
	case v.size == 0:
		return v.update != v.stable
	case !to.Abort:
		return false
	case v.currentRevision != v.stable || v.aside != "":
		return true
	}
	return slices.ContainsFunc(v.pods, func(p *corev1.Pod) bool { return v.podRevision(p) != v.stable })
}

// isAbortComplete reports whether an abort is complete. Without pods the stable template must stay.
func (v view) isAbortComplete(to planner.Target) bool {
	switch {
	case !to.Abort:
		return false
	case v.newPodsUseTemplate:
		return v.isStable()
	default:
		return !v.needsStableTemplate(to) || v.size == 0 && v.live == v.stable
	}
}

// resolveUnavailable returns how many pods a limit allows to be missing. The result is at least 1,
// because with 0 the controller could not replace any pod.
func resolveUnavailable(limit *intstr.IntOrString, of int32, roundUp bool) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(limit, intstr.FromInt32(1)), int(of), roundUp)
	if err != nil {
		return 1
	}
	return max(int32(n), 1) //nolint:gosec // bounded by the size, or what the owner wrote
}

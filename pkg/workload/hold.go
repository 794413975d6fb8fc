// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// Hold is the state of the release of a workload: whether the workload is held, which revision is
// stable, and how far the release may go. Adapters get the Hold as an argument. They do not read the
// annotations that repeat this state, because everyone who may write the workload may write those.
type Hold struct {
	// Stored is the state in the store. The other fields apply it to one object.
	Stored planner.HoldState
	// Held reports whether Weir stops the native controller. Holder names the Rollout that
	// asked for it; empty if unknown.
	Held   bool
	Holder string
	// Controlled reports whether a BatchRelease sets a target, and Controller is its UID.
	Controlled bool
	Controller types.UID
	// Stable is the stable revision; empty if no record names it. Then it is derived from
	// the ReplicaSets or ControllerRevisions.
	Stable string
	// strategy has the target and its style. It also has the settings of the owner that Weir has
	// replaced, which only the annotation keeps. hasStrategy is false if there is neither.
	strategy    strategyRecord
	hasStrategy bool
}

// HoldOf returns the state of a workload from the store's state k.
func (r Row) HoldOf(obj object.Object, owned []object.Object, k planner.HoldState) Hold {
	if k.UID != "" && k.UID != obj.GetUID() {
		// The released workload was deleted, and this one was created later.
		k = planner.HoldState{UID: k.UID, Style: k.Style}
	}
	if _, controlled := readController(obj); k.Restoring && !controlled {
		// The workload was restored. The revision that serves is stable again.
		k.Target, k.Stable, k.StableTemplate = nil, "", ""
	}
	h := Hold{Stored: k, Held: r.isHeld(obj, owned, k), Holder: k.Holder, Controlled: k.Target != nil}
	h.strategy, h.hasStrategy = strategyOf(obj, k, h.Held)
	if h.Controlled {
		h.Controller = k.Batch
	}
	if !h.Active() {
		return h
	}
	h.Stable = k.Stable
	if h.Stable == "" && h.Held && k.StableTemplate != "" {
		// The pods do not show the stable revision: the workload may have been scaled to 0 and up
		// again, and its native controller gives new pods to the youngest ReplicaSet.
		h.Stable = r.FindRevisionByDigest(obj, owned, k.StableTemplate)
	}
	return h
}

// isHeld reports whether the workload is held. A mark alone holds nothing: if the store knows
// no release, the mark counts only together with a spec that stops the native controller, or
// lets it only add pods (blue-green).
func (r Row) isHeld(obj object.Object, owned []object.Object, k planner.HoldState) bool {
	switch {
	case k.Holder != "":
		return true
	case !hasHoldMark(obj):
		return false
	case k.Releasing:
		return true
	}
	w := r.Observe(obj, owned, HoldFromRecords(obj))
	return w.Paused || w.UsesSurge
}

// strategyOf takes the target from the store, and from the record on the workload only the
// settings of the owner.
func strategyOf(obj metav1.Object, k planner.HoldState, isHeld bool) (s strategyRecord, ok bool) {
	recorded, _ := readStrategy(obj)
	s = strategyRecord{RollingUpdate: recorded.RollingUpdate, RevisionHistoryLimit: recorded.RevisionHistoryLimit}
	if recorded.SetAsideRevision != "" && recorded.SetAsideRevision == k.Update.Name {
		s.SetAsideRevision, s.SetAsideTemplate = k.Update.Name, k.Update.Template
	}
	if k.Target == nil {
		if s == (strategyRecord{}) || !isHeld {
			return strategyRecord{}, false
		}
		return s, true
	}
	s.setTarget(*k.Target)
	s.RollingStyle = k.Style
	if k.Target.Abort && recorded.RollingStyle == rollouts.StylePartition {
		// An abort of a canary or blue-green release may size the ReplicaSets as in the partition
		// style. SetTarget decides that, and records the style.
		s.RollingStyle = rollouts.StylePartition
	}
	return s, true
}

// HoldFromRecords reads the state from the annotations on a workload. Controllers use it only for
// workloads without a release in the store: those that clients of OpenKruise drive by annotations,
// and those that a lost release has left behind.
func HoldFromRecords(obj metav1.Object) Hold {
	h := Hold{Held: hasHoldMark(obj), Holder: HolderOf(obj)}
	h.Controller, h.Controlled = readController(obj)
	h.strategy, h.hasStrategy = readStrategy(obj)
	if h.Active() {
		h.Stable = obj.GetLabels()[rollouts.LabelStableRevision]
	}
	return h
}

// Active reports whether a release holds the workload, or sets its target.
func (h Hold) Active() bool { return h.Held || h.Controlled }

// Target returns the last target; nil if there is none.
func (h Hold) Target() *planner.Target {
	if !h.Controlled || !h.hasStrategy {
		return nil
	}
	target := h.strategy.target()
	target.Owner = h.Controller
	return &target
}

// aborting reports whether the last target sends all pods back to the stable revision.
func (h Hold) aborting() bool { return h.Controlled && h.strategy.Abort }

// revision returns the revision of the last target; empty if there is none.
func (h Hold) revision() planner.Revision { return h.strategy.target().Revision }

// annotationDriven reports whether a client drives the workload by annotations alone. Every
// release names its revision in the target, and such clients do not.
func (h Hold) annotationDriven() bool {
	return h.Controlled && h.hasStrategy && !h.Held && h.strategy.Revision == "" && !h.strategy.Abort
}

// withTarget returns the state after a BatchRelease has set a target.
func (h Hold) withTarget(style rollouts.Style, to planner.Target, stable string, owner types.UID) Hold {
	h.Controlled, h.Controller, h.hasStrategy = true, owner, true
	h.strategy.RollingStyle = style
	h.strategy.setTarget(to)
	if stable != "" {
		h.Stable = stable
	}
	return h
}

// withAside returns the state with another revision that is set aside; none if it is empty.
func (h Hold) withAside(aside planner.Revision) Hold {
	if h.strategy.SetAsideRevision != aside.Name {
		h.strategy.SetAsideRevision, h.strategy.SetAsideTemplate = aside.Name, aside.Template
		h.hasStrategy = true
	}
	return h
}

// copyOf returns a copy of the workload to be changed, on which Weir's records are right.
func (h Hold) copyOf(obj object.Object) object.Object {
	want := copyOf(obj)
	h.writeRecords(want)
	return want
}

// writeRecords writes the state to Weir's annotations and labels. A value with the same meaning in
// another spelling stays, because it is not worth a write.
func (h Hold) writeRecords(obj metav1.Object) {
	if !h.Active() {
		removeRecords(obj)
		return
	}
	var obsolete []string
	if !h.Held {
		obsolete = append(obsolete, rollouts.AnnotationInProgress)
	} else if by := HolderOf(obj); !hasHoldMark(obj) || len(obj.GetAnnotations()[rollouts.AnnotationInProgress]) > maxMark || h.Holder != "" && by != "" && by != h.Holder {
		writeHoldMark(obj, h.Holder)
	}
	if !h.Controlled {
		obsolete = append(obsolete, rollouts.AnnotationControlInfo)
	} else if by, ok := readController(obj); !ok || by != h.Controller {
		setAnnotation(obj, rollouts.AnnotationControlInfo, encode(metav1.OwnerReference{UID: h.Controller}))
	}
	if !h.hasStrategy {
		obsolete = append(obsolete, rollouts.AnnotationDeploymentStrategy)
	} else {
		writeStrategy(obj, h.strategy)
	}
	obj.SetAnnotations(withoutKeys(obj.GetAnnotations(), obsolete...))
	if h.Stable == "" {
		obj.SetLabels(withoutKeys(obj.GetLabels(), rollouts.LabelStableRevision))
	} else if obj.GetLabels()[rollouts.LabelStableRevision] != h.Stable {
		setLabel(obj, rollouts.LabelStableRevision, h.Stable)
	}
}

// diffRecords returns the keys of Weir on the workload whose values differ from the state. Before
// the first target nobody has written the stable revision yet, and the records of an earlier
// release of a workload that stayed held are overwritten by the next.
func (h Hold) diffRecords(obj metav1.Object) []string {
	annotations, labels := ourAnnotations, ourLabels
	switch {
	case h.Controlled:
		annotations = []string{rollouts.AnnotationInProgress, rollouts.AnnotationControlInfo, rollouts.AnnotationDeploymentStrategy}
		labels = []string{rollouts.LabelStableRevision}
	case h.Held:
		annotations, labels = []string{rollouts.AnnotationInProgress}, nil
		if obj.GetLabels()[rollouts.LabelStableRevision] != "" {
			labels = []string{rollouts.LabelStableRevision}
		}
	}
	want := metav1.ObjectMeta{Annotations: obj.GetAnnotations(), Labels: obj.GetLabels()}
	h.writeRecords(&want)
	return append(diffKeys(annotations, obj.GetAnnotations(), want.Annotations), diffKeys(labels, obj.GetLabels(), want.Labels)...)
}

func diffKeys(keys []string, a, b map[string]string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return a[k] == b[k] })
}

// checkRecords returns the keys of Weir on the workload that somebody else has written, and reports
// whether the target is not recorded yet. The record may wait until the batch is ready if Weir
// sizes the ReplicaSets, because sizes follow the store.
func (r Row) checkRecords(obj metav1.Object, hold Hold) (tampered []string, isUnrecorded bool) {
	tampered = hold.diffRecords(obj)
	if r.sizer == nil || !hold.Stored.Unrecorded {
		return tampered, false
	}
	all := len(tampered)
	tampered = slices.DeleteFunc(tampered, func(key string) bool { return key == rollouts.AnnotationDeploymentStrategy })
	return tampered, len(tampered) < all
}

// RepairRecords adds the repair of Weir's records to the changes of a workload, unless one of the changes
// repairs them already.
func (r Row) RepairRecords(obj object.Object, hold Hold, changes []object.Change) []object.Change {
	if slices.ContainsFunc(changes, func(c object.Change) bool { return c.Base == obj }) {
		return changes
	}
	if tampered, isUnrecorded := r.checkRecords(obj, hold); len(tampered) == 0 && !isUnrecorded {
		return changes
	}
	return append(changesBetween(obj, hold.copyOf(obj)), changes...)
}

// Facts returns the facts of a workload under a release. nameConflict is an object that has the
// name of the extra Deployment; nil if the name is free.
func (r Row) Facts(obj object.Object, owned []object.Object, hold Hold, nameConflict object.Object) planner.Workload {
	w := r.Observe(obj, owned, hold)
	w.UID = obj.GetUID()
	_, controlled := readController(obj)
	w.HasUnknownRecords = controlled && hold.Stored.Batch == ""
	w.HasManagedFields = w.HasManagedFields || hasOurKeys(obj)
	w.LastRequeueAnnotation = obj.GetAnnotations()[rollouts.AnnotationAskedAgain]
	tampered, isUnrecorded := r.checkRecords(obj, hold)
	w.TamperedKeys, w.ResumeHint = tampered, r.ResumeHint
	if obj.GetDeletionTimestamp() != nil {
		w.Deleted = rollouts.Lingers(strings.ToLower(r.GVK.Kind), obj)
	}
	w.TargetApplied = w.TargetApplied && len(tampered) == 0
	w.SizedByStore, w.ExtraStatusStale = r.sizer != nil, w.ExtraStatusStale || isUnrecorded
	if r.UsesExtraDeployment {
		observeExtra(&w, obj, owned, hold)
		w.Extra.NameConflict = explainConflict(nameConflict)
	}
	w.HoldRemoved = hold.Stored.Holder != "" && !w.Paused && !w.HasStableTemplate && w.LiveRevision != w.StableRevision && !r.allowsLivePods(&w, hold.Stored.Update)
	return w
}

// allowsLivePods reports whether the target lets the native controller create pods of the live
// template.
func (r Row) allowsLivePods(w *planner.Workload, update planner.Revision) bool {
	d := w.Target
	isTarget := d != nil && (d.Revision == (planner.Revision{}) || w.HasTemplateOf(d.Revision))
	return r.NativeReplacesPods && (isTarget || w.UsesSurge && w.HasTemplateOf(update))
}

// ObserveScaling returns the facts that decide the sizes of the ReplicaSets, and reports whether
// Weir sizes them now. It adds what only the store knows to ScalingFacts.
func (r Row) ObserveScaling(obj object.Object, owned []object.Object, hold Hold) (sizes.Scaling, bool) {
	facts, ok := r.ScalingFacts(obj, owned, hold)
	k := hold.Stored
	for _, rs := range replicaSets(owned) {
		if facts.Stable != nil && k.StableTemplate != "" && rs.Name == facts.Stable.Name && hashOf(rs) == hold.Stable && Digest(&rs.Spec.Template) != k.StableTemplate {
			facts.StableEdited = true
		}
		if k.Pinned != "" && hashOf(rs) == k.Pinned && metav1.IsControlledBy(rs, obj) {
			facts.PinnedSet = rs.Name
		}
	}
	return facts, ok
}

// IsForAnotherObject reports whether the store's state is about another object of the same name.
func (h Hold) IsForAnotherObject(obj object.Object) bool {
	return h.Stored.UID != "" && h.Stored.UID != obj.GetUID()
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// Seen is a workload of which our own keys say what the store says. Adapters are
// given it in the place of the stored object, so that none of them can believe what
// somebody else wrote there.
type Seen struct {
	// Object has the spec and the status as they are.
	Object object.Object
	// Stored is the object as it is stored; Object itself where they agree.
	Stored object.Object
	// Known is what it is seen by.
	Known planner.Known
	// Rival has the name of what is to be made beside the workload, and is not that; nil
	// if there is none.
	Rival object.Object
	// Unrecorded reports whether the object does not say yet how far it may go.
	Unrecorded bool
	// TamperedKeys are the keys of ours whose stored values are not those of Object.
	TamperedKeys []string
}

// See reads a workload by what the store knows of it.
func (r Row) See(obj object.Object, owned []object.Object, k planner.Known) Seen {
	if k.UID != "" && k.UID != obj.GetUID() {
		k = planner.Known{UID: k.UID, Style: k.Style} // the release is of a workload that was deleted before this one was made
	}
	if _, controlled := readOwner(obj); k.Leaves && !controlled {
		k.Target, k.Stable, k.StableTemplate = nil, "", "" // it was given back, and what serves is stable again
	}
	target := k.Target
	view := copyOf(obj)
	// A mark holds nothing by itself: where the store knows of no release, it counts
	// with a spec that stops the native controller, or lets it only add pods (blue-green).
	isHeld := k.Holder != "" || held(obj) && k.Releasing
	if !isHeld && held(obj) {
		w := r.Observe(obj, owned)
		isHeld = w.Paused || w.Surges
	}
	seeHold(view, isHeld, k.Holder)
	seeTarget(view, target, k)
	if !isHeld && target == nil {
		unmark(view)
	}
	if k.Stable == "" && isHeld && k.StableTemplate != "" {
		// Pods do not show it: the workload may have been scaled to 0 and up again since, and
		// the native controller gives pods that come to the youngest ReplicaSet.
		k.Stable = r.Named(obj, owned, k.StableTemplate)
	}
	seeStable(view, isHeld || target != nil, k.Stable)
	seen := Seen{Object: view, Stored: obj, Known: k, TamperedKeys: tamperedKeys(obj, view, isHeld, target != nil)}
	seen.awaitRecord(r.sets != nil && k.Unrecorded)
	return seen
}

// awaitRecord takes how far the workload may go for not written yet where it differs, if
// it may.
func (s *Seen) awaitRecord(may bool) {
	if at := slices.Index(s.TamperedKeys, rollouts.AnnotationDeploymentStrategy); may && at >= 0 {
		s.Unrecorded, s.TamperedKeys = true, slices.Delete(s.TamperedKeys, at, at+1)
	}
}

func seeHold(view metav1.Object, isHeld bool, holder string) {
	switch {
	case !isHeld:
		view.SetAnnotations(without(view.GetAnnotations(), rollouts.AnnotationInProgress))
	case !held(view), len(view.GetAnnotations()[rollouts.AnnotationInProgress]) > maxMark,
		holder != "" && HolderOf(view) != "" && HolderOf(view) != holder:
		writeHeld(view, holder)
	}
}

// seeTarget keeps of what stands there only what the owner wrote of the spec before.
func seeTarget(view metav1.Object, target *planner.Target, k planner.Known) {
	v, _ := readDriving(view)
	kept := driving{RollingUpdate: v.RollingUpdate, RevisionHistoryLimit: v.RevisionHistoryLimit}
	if v.SetAsideRevision != "" && v.SetAsideRevision == k.Update.Name {
		kept.SetAsideRevision, kept.SetAsideTemplate = k.Update.Name, k.Update.Template
	}
	if target == nil {
		view.SetAnnotations(without(view.GetAnnotations(), rollouts.AnnotationControlInfo))
		if kept == (driving{}) || !held(view) {
			view.SetAnnotations(without(view.GetAnnotations(), rollouts.AnnotationDeploymentStrategy))
			return
		}
		writeDriving(view, kept)
		return
	}
	kept.RollingStyle = v.RollingStyle
	kept.told(*target)
	if v.RollingStyle != rollouts.StylePartition || !target.Abort {
		kept.RollingStyle = k.Style // only a way back is that of the partition style
	}
	writeDriving(view, kept)
	if owner, _ := readOwner(view); owner != k.Batch {
		annotate(view, rollouts.AnnotationControlInfo, encode(metav1.OwnerReference{UID: k.Batch}))
	}
}

func seeStable(view metav1.Object, ours bool, stable string) {
	switch {
	case ours && stable != "":
		label(view, rollouts.LabelStableRevision, stable)
	default:
		view.SetLabels(without(view.GetLabels(), rollouts.LabelStableRevision))
	}
}

// tamperedKeys compares what is stored with what should be. Until a workload is driven
// nobody has written its stable revision, and what an earlier drive wrote of a
// workload that stays held is written over by the next.
func tamperedKeys(stored, view metav1.Object, isHeld, isDriven bool) []string {
	annotations, labels := ourAnnotations, ourLabels
	switch {
	case isDriven:
		annotations = []string{rollouts.AnnotationInProgress, rollouts.AnnotationControlInfo, rollouts.AnnotationDeploymentStrategy}
		labels = []string{rollouts.LabelStableRevision}
	case isHeld:
		annotations, labels = []string{rollouts.AnnotationInProgress}, nil
		if stored.GetLabels()[rollouts.LabelStableRevision] != "" {
			labels = []string{rollouts.LabelStableRevision}
		}
	}
	return append(differing(annotations, stored.GetAnnotations(), view.GetAnnotations()),
		differing(labels, stored.GetLabels(), view.GetLabels())...)
}

func differing(keys []string, is, should map[string]string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return is[k] == should[k] })
}

// Facts are those of a workload as it is seen.
func (r Row) Facts(s Seen, owned []object.Object) planner.Workload {
	w := r.Observe(s.Object, owned)
	w.UID = s.Stored.GetUID()
	_, driven := readOwner(s.Stored)
	w.DrivenElsewhere = driven && s.Known.Batch == ""
	w.HasManagedFields = w.HasManagedFields || hasKeys(s.Stored)
	w.Asked = s.Stored.GetAnnotations()[rollouts.AnnotationAskedAgain]
	w.TamperedKeys, w.ResumeHint = s.TamperedKeys, r.ResumeHint
	if s.Stored.GetDeletionTimestamp() != nil {
		w.Deleted = rollouts.Lingers(strings.ToLower(r.GVK.Kind), s.Stored)
	}
	w.TargetApplied = w.TargetApplied && len(s.TamperedKeys) == 0
	w.SizedByStore, w.ExtraStatusStale = r.sets != nil, w.ExtraStatusStale || s.Unrecorded
	if r.Extra {
		observeExtra(&w, s.Object, owned, s.Known)
		w.Rival = rivalry(s.Rival)
	}
	w.Unheld = s.Known.Holder != "" && !w.Paused && !w.AtStable && w.LiveRevision != w.StableRevision && !r.opened(&w, s.Known.Update)
	return w
}

// Sizing is the facts of a Deployment whose sets are sized here, as it is seen.
func (r Row) Sizing(s Seen, owned []object.Object) (sizes.Scaling, bool) {
	facts, ok := r.Scaling(s.Object, owned)
	if facts.Stable != nil && s.Known.StableTemplate != "" {
		facts.StableEdited = slices.ContainsFunc(replicaSets(owned), func(rs *appsv1.ReplicaSet) bool {
			return rs.Name == facts.Stable.Name && hashOf(rs) == s.Known.Stable && Digest(&rs.Spec.Template) != s.Known.StableTemplate
		})
	}
	for _, rs := range replicaSets(owned) {
		if s.Known.Pinned != "" && hashOf(rs) == s.Known.Pinned && metav1.IsControlledBy(rs, s.Object) {
			facts.Pinned = rs.Name
		}
	}
	return facts, ok
}

// opened reports whether the native controller is to bring pods of the live template,
// as far as it was told.
func (r Row) opened(w *planner.Workload, update planner.Revision) bool {
	d := w.Target
	told := d != nil && (d.Revision == (planner.Revision{}) || w.Is(d.Revision))
	return r.Opens && (told || w.Surges && w.Is(update))
}

// Another reports whether it is another object than the one that is released.
func (s Seen) Another() bool { return s.Known.UID != "" && s.Known.UID != s.Stored.GetUID() }

// Based turns changes of the workload as it is seen into changes of what is stored.
// Each of them puts our keys right, too. One that is stored already is left out.
func (s Seen) Based(changes []object.Change) []object.Change {
	var based []object.Change
	for _, c := range changes {
		switch {
		case c.Base != s.Object:
			based = append(based, c)
		case c.Want == nil:
			based = append(based, object.Change{Base: s.Stored})
		default:
			based = append(based, change(s.Stored, c.Want)...)
		}
	}
	return based
}

// Changes are those, and what puts our keys right, or on record, where none of them does.
func (s Seen) Changes(changes []object.Change) []object.Change {
	about := func(c object.Change) bool { return c.Base == s.Object }
	if (s.Unrecorded || len(s.TamperedKeys) > 0) && !slices.ContainsFunc(changes, about) {
		return append(change(s.Stored, s.Object), changes...)
	}
	return s.Based(changes)
}

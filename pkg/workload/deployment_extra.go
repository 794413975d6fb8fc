// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Only Weir may change the extra Deployment, but every user who may patch Deployments can. So Weir
// recognizes it by the UID in the store, and repairs its spec.

// ExtraDeployments returns the extra Deployments of a workload in its namespace: the one whose UID
// is in the store, whatever its owner reference says, and those that the BatchRelease owns. There
// can be several while pods of a superseded template stay because requests need them.
func (r Row) ExtraDeployments(obj object.Object, beside []object.Object, k planner.HoldState) []object.Object {
	if _, ok := obj.(*appsv1.Deployment); !r.UsesExtraDeployment || !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(beside), func(o object.Object) bool {
		e, ok := o.(*appsv1.Deployment)
		stored := k.Extra != "" && o.GetUID() == k.Extra
		return !ok || !stored && (k.Batch == "" || !ownedBy(e, k.Batch))
	})
}

// NameConflict returns an object that has the name of the extra Deployment of the live template, and
// does not belong to the release; nil if the name is free.
func (r Row) NameConflict(obj object.Object, owned []object.Object, hold Hold, named func(name string) (object.Object, error)) (object.Object, error) {
	d, ok := obj.(*appsv1.Deployment)
	if !r.UsesExtraDeployment || !ok || hold.Target() == nil {
		return nil, nil
	}
	name := extraName(d, hold.revision())
	if slices.ContainsFunc(extraDeployments(owned), func(e *appsv1.Deployment) bool { return e.Name == name || isAdopted(e) }) {
		return nil, nil
	}
	return named(name)
}

// explainConflict returns which object uses the name, or why it is not deleted yet.
func explainConflict(o object.Object) string {
	switch {
	case o == nil:
		return ""
	case o.GetDeletionTimestamp() != nil:
		return rollouts.Lingers("deployment", o)
	default:
		return rollouts.Taken("deployment", o)
	}
}

func ownedBy(o metav1.Object, uid types.UID) bool {
	c := metav1.GetControllerOf(o)
	return c != nil && c.UID == uid
}

// excludeOtherSets makes the selector of an extra Deployment exclude ReplicaSets of other templates.
// Scenario: the workload is deleted with orphaned ReplicaSets. Without the exclusion, the extra
// Deployment would adopt the stable ReplicaSet, and both would be deleted together. A distinct label
// would also do, if pods of the extra Deployment could have labels that pods of the workload lack.
func (r revisions) excludeOtherSets(e *appsv1.Deployment) {
	not := metav1.LabelSelectorRequirement{Key: hashLabel, Operator: metav1.LabelSelectorOpNotIn}
	for _, rs := range r.all {
		if hash := hashOf(rs); hash != "" && !sameTemplate(&rs.Spec.Template, &e.Spec.Template) {
			not.Values = append(not.Values, hash)
		}
	}
	if len(not.Values) > 0 && e.Spec.Selector != nil {
		e.Spec.Selector.MatchExpressions = append(e.Spec.Selector.MatchExpressions, not)
	}
}

// repairedExtra returns the extra Deployment as it must be. An adopted one keeps the template that
// OpenKruise gave it. Records of Weir that another client wrote are removed. No annotation is added:
// otherwise a user who fills the annotations could prevent the repair.
func repairedExtra(e, d *appsv1.Deployment, hold Hold, to planner.SetTarget, owner metav1.OwnerReference, size int32) *appsv1.Deployment {
	want, template := e.DeepCopy(), e.Spec.Template
	if want.Spec = newExtra(d, hold, to, owner, size).Spec; isAdopted(e) {
		want.Spec.Template = *template.DeepCopy()
	} else {
		setLabel(want, rollouts.LabelCanaryDeployment, d.Name)
		want.Finalizers = slices.DeleteFunc(want.Finalizers, func(f string) bool { return f == rollouts.FinalizerCanaryDeployment })
	}
	want.Spec.Selector, want.Spec.RevisionHistoryLimit = e.Spec.Selector, e.Spec.RevisionHistoryLimit
	setLabel(want, rollouts.LabelOwnedByRelease, "true")
	removeRecords(want)
	if by, _ := readController(e); by == owner.UID && by != "" {
		setAnnotation(want, rollouts.AnnotationControlInfo, e.Annotations[rollouts.AnnotationControlInfo])
	}
	if !ownedBy(e, owner.UID) {
		want.OwnerReferences = []metav1.OwnerReference{owner}
	}
	return want
}

// observeExtra adds the facts of an extra Deployment that depend on the store.
func observeExtra(w *planner.Workload, obj object.Object, owned []object.Object, hold Hold) {
	k := hold.Stored
	d, ok := obj.(*appsv1.Deployment)
	if !ok {
		return
	}
	live := findExtra(d, owned, hold.revision())
	if slices.ContainsFunc(extraDeployments(owned), func(e *appsv1.Deployment) bool { return e.UID == k.Extra }) {
		w.Extra.UID = k.Extra
	} else if live != nil {
		w.Extra.UID = live.UID
	}
	if e := live; e != nil && w.Target != nil {
		want := repairedExtra(e, d, hold, planner.SetTarget{Target: *w.Target, Metadata: k.Metadata}, metav1.OwnerReference{UID: k.Batch}, sizeOfExtra(d, owned, e, hold, w.Target))
		have := e.DeepCopy()
		setLabel(have, rollouts.LabelOwnedByRelease, "true") // an earlier version of Weir did not write it
		w.Extra.Tampered = len(changesBetween(have, want)) > 0
		w.TargetApplied = w.TargetApplied && !w.Extra.Tampered
	}
}

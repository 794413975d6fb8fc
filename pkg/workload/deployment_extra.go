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

// The extra Deployment is Weir's alone. Whoever may patch Deployments may patch it, too:
// so it is known by the uid in the store, and what it runs is put right.

// Extras are those Deployments of a namespace that were made beside a workload: the one
// whose uid is in the store, whoever owns it by now. Until one is, it is that which the
// BatchRelease owns and which has the name that it would be given.
func (r Row) Extras(obj object.Object, beside []object.Object, k planner.Known) []object.Object {
	d, ok := obj.(*appsv1.Deployment)
	if !r.Extra || !ok {
		return nil
	}
	stored := slices.IndexFunc(beside, func(o object.Object) bool { return k.Extra != "" && o.GetUID() == k.Extra })
	if stored >= 0 {
		return beside[stored : stored+1 : stored+1]
	}
	name := canaryName(d.Name, TemplateHash(&d.Spec.Template))
	return slices.DeleteFunc(slices.Clone(beside), func(o object.Object) bool {
		e, ok := o.(*appsv1.Deployment)
		return !ok || k.Batch == "" || !ownedBy(e, k.Batch) || e.Name != name && !adopted(e)
	})
}

func ownedBy(o metav1.Object, uid types.UID) bool {
	c := metav1.GetControllerOf(o)
	return c != nil && c.UID == uid
}

// mended is the extra Deployment as it is to be. One that OpenKruise made has a template
// of its making.
func mended(e, d *appsv1.Deployment, metadata *rollouts.PodTemplateMetadata, owner metav1.OwnerReference, size int32) *appsv1.Deployment {
	want := e.DeepCopy()
	want.Spec.Replicas, want.Spec.Paused = &size, false
	if !adopted(e) {
		want.Spec.Template = extraFor(d, metadata, owner, size).Spec.Template
		label(want, rollouts.LabelCanaryDeployment, d.Name)
	}
	if !ownedBy(e, owner.UID) {
		want.OwnerReferences = []metav1.OwnerReference{owner}
	}
	return want
}

// observeExtra adds the facts of an extra Deployment that only the store can judge.
func observeExtra(w *planner.Workload, obj object.Object, owned []object.Object, k planner.Known) {
	for _, e := range extras(owned) {
		w.ExtraUID = e.UID
	}
	d, ok := obj.(*appsv1.Deployment)
	if !ok || w.Drive == nil {
		return
	}
	if e := extraOf(d, owned); e != nil {
		want := mended(e, d, k.Metadata, metav1.OwnerReference{UID: k.Batch}, wanted(d, replicas(e), w.Drive))
		w.ExtraAstray = len(change(e, want)) > 0
		w.Obeyed = w.Obeyed && !w.ExtraAstray
	}
}

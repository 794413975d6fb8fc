// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/workload"
)

// The CloneSet controller of OpenKruise, as far as it matters to a release: one sync. It replaces
// pods. In-place updates and surge are not simulated.

// cloneSetSync is one sync of one CloneSet.
type cloneSetSync struct {
	store           *store
	set             *workload.CloneSet
	current, update *appsv1.ControllerRevision
	// pods are the pods that are not being deleted.
	pods []*corev1.Pod
}

// syncCloneSet runs one sync of the CloneSet controller.
func syncCloneSet(s *store, name string) {
	set := find[*workload.CloneSet](s.objects, kindCloneSet, name)
	if set == nil || set.DeletionTimestamp != nil {
		return
	}
	k := &cloneSetSync{store: s, set: clone(set)}
	if !k.ensureRevision() {
		return
	}
	k.listPods()
	if !k.scalePods() && !k.set.Spec.UpdateStrategy.Paused {
		k.replaceOldPods()
	}
	k.listPods()
	k.writeStatus()
}

// ensureRevision finds or creates the ControllerRevision of the live template. A revision found
// again becomes the newest.
func (k *cloneSetSync) ensureRevision() bool {
	next := int64(1)
	for _, r := range listOf[*appsv1.ControllerRevision](k.store.objects) {
		if !metav1.IsControlledBy(r, k.set) {
			continue
		}
		next = max(next, r.Revision+1)
		if equality.Semantic.DeepEqual(templateIn(r), &k.set.Spec.Template) {
			k.update = clone(r)
		}
		if r.Name == k.set.Status.CurrentRevision {
			k.current = clone(r)
		}
	}
	switch {
	case k.update == nil && !k.createRevision(next):
		return false
	case k.update.Revision < next-1:
		k.update.Revision = next
		_ = k.store.update(k.update) // it was read in this sync
	}
	if k.current == nil {
		k.current = k.update
	}
	return true
}

// createRevision stores the live template in a ControllerRevision.
func (k *cloneSetSync) createRevision(number int64) bool {
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": k.set.Spec.Template}})
	if err != nil {
		panic(err)
	}
	hash := freeHash(workload.TemplateHash(&k.set.Spec.Template), k.set.Name, listOf[*appsv1.ControllerRevision](k.store.objects))
	k.update = &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: k.set.Name + "-" + hash, Labels: map[string]string{"app": k.set.Name, ordinalKey: hash}, OwnerReferences: k.owner(),
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
	return k.store.create(k.update) == nil
}

func (k *cloneSetSync) owner() []metav1.OwnerReference {
	kind := schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}
	return []metav1.OwnerReference{*metav1.NewControllerRef(k.set, kind)}
}

func (k *cloneSetSync) listPods() {
	k.pods = slices.DeleteFunc(podsIn(k.store.objects), func(p *corev1.Pod) bool {
		return !metav1.IsControlledBy(p, k.set) || isTerminating(p)
	})
}

func (k *cloneSetSync) isUpdated(p *corev1.Pod) bool {
	return p.Labels[ordinalKey] == k.update.Labels[ordinalKey]
}

// scalePods creates missing pods, first those that the partition keeps, or deletes surplus pods. It
// reports whether it changed pods.
func (k *cloneSetSync) scalePods() bool {
	n, old := int(*k.set.Spec.Replicas), k.countOldPods()
	keep := int(cloneSets{}.left(k.set))
	for range n - len(k.pods) {
		r := k.update
		if old < keep {
			r, old = k.current, old+1
		}
		k.createPod(r)
	}
	for range len(k.pods) - n {
		fromOld := old > keep
		i := slices.IndexFunc(k.pods, func(p *corev1.Pod) bool { return k.isUpdated(p) != fromOld })
		if i < 0 {
			i = len(k.pods) - 1
		}
		if !k.isUpdated(k.pods[i]) {
			old--
		}
		_ = k.store.remove(k.pods[i])
		k.pods = slices.Delete(k.pods, i, i+1)
	}
	before := len(k.pods)
	k.listPods()
	return before != n || len(k.pods) != before
}

func (k *cloneSetSync) countOldPods() int {
	n := 0
	for _, p := range k.pods {
		if !k.isUpdated(p) {
			n++
		}
	}
	return n
}

// createPod creates a pod with the first free name.
func (k *cloneSetSync) createPod(r *appsv1.ControllerRevision) {
	t, i := templateIn(r), 0
	name := func() string { return fmt.Sprintf("%s-%d", k.set.Name, i) }
	for k.store.objects[key{kindPod, name()}] != nil {
		i++
	}
	labels := maps.Clone(t.Labels)
	labels[ordinalKey], labels[hashKey] = r.Labels[ordinalKey], r.Labels[ordinalKey]
	_ = k.store.create(&corev1.Pod{ // the name is free
		ObjectMeta: metav1.ObjectMeta{Name: name(), Labels: labels, Annotations: t.Annotations, OwnerReferences: k.owner()},
		Spec:       t.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending},
	})
}

// replaceOldPods deletes pods of other revisions beyond the partition, at most maxUnavailable, and
// unavailable pods first.
func (k *cloneSetSync) replaceOldPods() {
	_, spare := cloneSets{}.limits(k.set, *k.set.Spec.Replicas)
	var sick, well []*corev1.Pod
	for _, p := range k.pods {
		switch {
		case !isReady(p) && k.isUpdated(p):
			spare--
		case !isReady(p):
			spare--
			sick = append(sick, p)
		case !k.isUpdated(p):
			well = append(well, p)
		}
	}
	n := max(len(sick)+len(well)-int(cloneSets{}.left(k.set)), 0)
	sick = sick[:min(n, len(sick))]
	well = well[:min(n-len(sick), max(int(spare), 0), len(well))]
	for _, p := range slices.Concat(sick, well) {
		_ = k.store.remove(p)
	}
}

// writeStatus writes the status. The update revision becomes the current one when all pods have it.
func (k *cloneSetSync) writeStatus() {
	set := clone(find[*workload.CloneSet](k.store.objects, kindCloneSet, k.set.Name))
	set.Status = workload.CloneSetStatus{ObservedGeneration: k.set.Generation, UpdateRevision: k.update.Name}
	for _, p := range k.pods {
		set.Status.Replicas++
		if isReady(p) {
			set.Status.ReadyReplicas++
		}
		if k.isUpdated(p) {
			set.Status.UpdatedReplicas++
		}
		if k.isUpdated(p) && isReady(p) {
			set.Status.UpdatedReadyReplicas++
		}
	}
	if set.Status.CurrentRevision = k.current.Name; set.Status.UpdatedReplicas == set.Status.Replicas {
		set.Status.CurrentRevision = k.update.Name
	}
	_ = k.store.updateStatus(set)
}

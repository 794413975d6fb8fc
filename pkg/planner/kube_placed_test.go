// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/workload"
)

// The native DaemonSet controller, as far as it matters to a release: one sync, in the order of
// kube-controller-manager.

// daemonSetSync is one sync of one DaemonSet.
type daemonSetSync struct {
	store     *store
	set       *appsv1.DaemonSet
	revisions []*appsv1.ControllerRevision
	live      *appsv1.ControllerRevision
	// pods are the pods by node name. A terminating pod still occupies its node.
	pods  map[string]*corev1.Pod
	nodes []*corev1.Node
}

// syncDaemonSet runs one sync of the native controller.
func syncDaemonSet(s *store, name string) {
	set := find[*appsv1.DaemonSet](s.objects, kindDaemonSet, name)
	if set == nil || set.DeletionTimestamp != nil {
		return
	}
	k := &daemonSetSync{store: s, set: clone(set), nodes: listOf[*corev1.Node](s.objects)}
	if !k.ensureRevision() {
		return
	}
	k.listPods()
	k.createMissingPods()
	if !(daemonSets{}).isStopped(set) {
		k.replaceOldPods()
	}
	k.truncateHistory()
	k.listPods()
	k.writeStatus()
}

// ensureRevision finds or creates the ControllerRevision of the live template. A revision found
// again becomes the newest.
func (k *daemonSetSync) ensureRevision() bool {
	for _, r := range listOf[*appsv1.ControllerRevision](k.store.objects) {
		if metav1.IsControlledBy(r, k.set) {
			k.revisions = append(k.revisions, clone(r))
		}
	}
	slices.SortStableFunc(k.revisions, func(a, b *appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	next := int64(1)
	for _, r := range k.revisions {
		next = r.Revision + 1
		if equality.Semantic.DeepEqual(templateIn(r), &k.set.Spec.Template) {
			k.live = r
		}
	}
	switch {
	case k.live == nil:
		return k.createRevision(next)
	case k.live.Revision < next-1:
		k.live.Revision = next
		_ = k.store.update(k.live) // it was read in this sync
	}
	return true
}

// createRevision stores the live template in a ControllerRevision with the hash label of its pods.
func (k *daemonSetSync) createRevision(number int64) bool {
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": k.set.Spec.Template}})
	if err != nil {
		panic(err)
	}
	hash := freeHash(workload.TemplateHash(&k.set.Spec.Template), k.set.Name, k.revisions)
	k.live = &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: k.set.Name + "-" + hash, Labels: withKey(k.set.Spec.Selector.MatchLabels, ordinalKey, hash), OwnerReferences: k.owner(),
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
	k.revisions = append(k.revisions, k.live)
	return k.store.create(k.live) == nil
}

func (k *daemonSetSync) owner() []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(k.set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
}

func (k *daemonSetSync) listPods() {
	k.pods = map[string]*corev1.Pod{}
	for _, p := range podsIn(k.store.objects) {
		if metav1.IsControlledBy(p, k.set) {
			k.pods[nodeOf(p)] = p
		}
	}
}

func (k *daemonSetSync) isUpdated(p *corev1.Pod) bool {
	return p.Labels[ordinalKey] == k.live.Labels[ordinalKey]
}

// createMissingPods creates a pod of the live template on each node without a pod, in every update
// strategy.
func (k *daemonSetSync) createMissingPods() {
	for _, node := range k.nodes {
		if k.pods[node.Name] != nil {
			continue
		}
		t := &k.set.Spec.Template
		labels := maps.Clone(t.Labels)
		labels[ordinalKey] = k.live.Labels[ordinalKey]
		_ = k.store.create(&corev1.Pod{ // this sync observed no pod of the name
			ObjectMeta: metav1.ObjectMeta{
				Name: k.set.Name + node.Name[len("node"):], Labels: labels, Annotations: t.Annotations, OwnerReferences: k.owner(),
			},
			Spec: t.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending},
		})
	}
}

// replaceOldPods deletes pods of other revisions: unavailable pods, and at most maxUnavailable
// ready pods.
func (k *daemonSetSync) replaceOldPods() {
	_, spare := daemonSets{}.limits(k.set, int32(len(k.nodes)))
	var old []*corev1.Pod
	for _, node := range k.nodes {
		switch p := k.pods[node.Name]; {
		case p == nil || isTerminating(p) || k.isUpdated(p) && !isReady(p):
			spare--
		case k.isUpdated(p):
		case isReady(p):
			old = append(old, p)
		default:
			_ = k.store.remove(p)
		}
	}
	for _, p := range old[:min(max(int(spare), 0), len(old))] {
		_ = k.store.remove(p)
	}
}

// writeStatus writes the status.
func (k *daemonSetSync) writeStatus() {
	set := clone(find[*appsv1.DaemonSet](k.store.objects, kindDaemonSet, k.set.Name))
	set.Status = appsv1.DaemonSetStatus{ObservedGeneration: k.set.Generation, DesiredNumberScheduled: int32(len(k.nodes))}
	for _, node := range k.nodes {
		p := k.pods[node.Name]
		if p == nil {
			continue
		}
		set.Status.CurrentNumberScheduled++
		if isReady(p) {
			set.Status.NumberReady++
			set.Status.NumberAvailable++
		}
		if k.isUpdated(p) {
			set.Status.UpdatedNumberScheduled++
		}
	}
	set.Status.NumberUnavailable = set.Status.DesiredNumberScheduled - set.Status.NumberAvailable
	_ = k.store.updateStatus(set)
}

// truncateHistory deletes the oldest unused revisions beyond the history limit.
func (k *daemonSetSync) truncateHistory() {
	past := slices.DeleteFunc(slices.Clone(k.revisions), func(r *appsv1.ControllerRevision) bool {
		used := r == k.live
		for _, p := range k.pods {
			used = used || p.Labels[ordinalKey] == r.Labels[ordinalKey]
		}
		return used
	})
	for _, r := range past[:max(len(past)-int(*k.set.Spec.RevisionHistoryLimit), 0)] {
		_ = k.store.remove(r)
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/workload"
)

// The native StatefulSet controller, as far as it matters to a release: one sync, in the order of
// kube-controller-manager.

const ordinalKey = appsv1.ControllerRevisionHashLabelKey

// statefulSetSync is one sync of one StatefulSet.
type statefulSetSync struct {
	store *store
	set   *appsv1.StatefulSet
	// revisions is the history, newest last.
	revisions       []*appsv1.ControllerRevision
	current, update *appsv1.ControllerRevision
	// replicas are the pods within the size by ordinal, including pods to be created. condemned are
	// the other pods, highest ordinal first.
	replicas, condemned []*corev1.Pod
	status              appsv1.StatefulSetStatus
}

// syncStatefulSet runs one sync of the native controller, and reports whether the sync completed.
func syncStatefulSet(s *store, name string) bool {
	set := find[*appsv1.StatefulSet](s.objects, kindStatefulSet, name)
	if set == nil || set.DeletionTimestamp != nil {
		return true
	}
	k := &statefulSetSync{store: s, set: clone(set)}
	if !k.ensureRevision() {
		return false
	}
	k.status = appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, CurrentRevision: k.current.Name, UpdateRevision: k.update.Name,
	}
	k.listPods()
	k.managePods()
	k.completeUpdate()
	k.truncateHistory()
	return true
}

// ensureRevision finds or creates the ControllerRevision of the live template.
func (k *statefulSetSync) ensureRevision() bool {
	for _, r := range listOf[*appsv1.ControllerRevision](k.store.objects) {
		if metav1.IsControlledBy(r, k.set) {
			k.revisions = append(k.revisions, clone(r))
		}
	}
	slices.SortStableFunc(k.revisions, func(a, b *appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	next := int64(1)
	if n := len(k.revisions); n > 0 {
		next = k.revisions[n-1].Revision + 1
	}
	for _, r := range slices.Backward(k.revisions) {
		if equality.Semantic.DeepEqual(templateIn(r), &k.set.Spec.Template) {
			k.update = r
			break
		}
	}
	switch {
	case k.update == nil && !k.createRevision(next):
		return false
	case k.update.Revision < next-1:
		k.update.Revision = next
		_ = k.store.update(k.update) // it was read in this sync
	}
	k.current = k.update
	for _, r := range k.revisions {
		if r.Name == k.set.Status.CurrentRevision {
			k.current = r
		}
	}
	return true
}

// createRevision stores the live template in a ControllerRevision. It fails if an earlier
// StatefulSet left an object of the name; the real controller increments the collision count.
func (k *statefulSetSync) createRevision(number int64) bool {
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": k.set.Spec.Template}})
	if err != nil {
		panic(err)
	}
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: k.set.Name + "-" + freeHash("n"+workload.TemplateHash(&k.set.Spec.Template), k.set.Name, k.revisions), Labels: maps.Clone(k.set.Spec.Selector.MatchLabels),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(k.set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
	if k.store.create(r) != nil {
		return false
	}
	k.update = clone(find[*appsv1.ControllerRevision](k.store.objects, kindRevision, r.Name))
	k.revisions = append(k.revisions, k.update)
	return true
}

// freeHash returns an unused hash for a new revision. Native controllers hash the collision count,
// too; the simulation appends a letter for each collision.
func freeHash(hash, set string, revisions []*appsv1.ControllerRevision) string {
	for slices.ContainsFunc(revisions, func(r *appsv1.ControllerRevision) bool { return r.Name == set+"-"+hash }) {
		hash += "c"
	}
	return hash
}

func templateIn(r *appsv1.ControllerRevision) *corev1.PodTemplateSpec {
	var patch struct {
		Spec struct{ Template corev1.PodTemplateSpec }
	}
	if err := json.Unmarshal(r.Data.Raw, &patch); err != nil {
		panic(err)
	}
	return &patch.Spec.Template
}

func (k *statefulSetSync) size() int { return int(*k.set.Spec.Replicas) }

func (k *statefulSetSync) isOrdered() bool {
	return k.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
}

func (k *statefulSetSync) listPods() {
	k.replicas = make([]*corev1.Pod, k.size())
	for _, p := range listOf[*corev1.Pod](k.store.objects) {
		switch i := ordinalOf(p); {
		case !metav1.IsControlledBy(p, k.set):
		case i < k.size():
			k.replicas[i] = p
		default:
			k.condemned = append(k.condemned, p)
		}
	}
	slices.SortFunc(k.condemned, func(a, b *corev1.Pod) int { return cmp.Compare(ordinalOf(b), ordinalOf(a)) })
	for i, p := range k.replicas {
		if p == nil {
			k.replicas[i] = k.newPod(i)
		}
	}
}

func ordinalOf(p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Name[strings.LastIndex(p.Name, "-")+1:])
	if err != nil {
		panic(err)
	}
	return n
}

// newPod returns a pod to be created. Below the partition, it has the current revision.
func (k *statefulSetSync) newPod(i int) *corev1.Pod {
	r, u := k.update, k.set.Spec.UpdateStrategy
	below := u.Type == appsv1.RollingUpdateStatefulSetStrategyType && u.RollingUpdate == nil && i < int(k.set.Status.CurrentReplicas)
	if below || u.RollingUpdate != nil && u.RollingUpdate.Partition != nil && i < int(*u.RollingUpdate.Partition) {
		r = k.current
	}
	t := templateIn(r)
	labels := maps.Clone(t.Labels)
	labels[ordinalKey] = r.Name
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", k.set.Name, i), Labels: labels, Annotations: t.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(k.set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Spec: t.Spec,
	}
}

func isCreated(p *corev1.Pod) bool     { return p.Status.Phase != "" }
func isTerminating(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }

// isReady reports the Ready condition, which may be true for a pod that is being deleted.
func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func isUnavailable(p *corev1.Pod) bool { return !isReady(p) || isTerminating(p) }

// managePods creates, then deletes, then replaces pods. With OrderedReady, each pod waits for the
// previous one.
func (k *statefulSetSync) managePods() {
	var first *corev1.Pod
	for _, p := range slices.Concat(k.replicas, slices.SortedFunc(slices.Values(k.condemned), func(a, b *corev1.Pod) int {
		return cmp.Compare(ordinalOf(a), ordinalOf(b))
	})) {
		if first == nil && isUnavailable(p) {
			first = p
		}
	}
	k.countPods()
	for _, p := range k.replicas {
		made := !isCreated(p)
		if made {
			k.createPod(p)
		}
		if k.isOrdered() && (made || isUnavailable(p)) {
			return
		}
	}
	for _, p := range k.condemned {
		blocked := isTerminating(p) || !isReady(p) && p != first
		if !isTerminating(p) && (!k.isOrdered() || !blocked) {
			_ = k.store.remove(p) // it was read in this sync
		}
		if k.isOrdered() {
			return
		}
	}
	if t := k.set.Spec.UpdateStrategy.Type; t == "" || t == appsv1.RollingUpdateStatefulSetStrategyType {
		k.replaceOldPods()
	}
}

func (k *statefulSetSync) createPod(p *corev1.Pod) {
	made := clone(p)
	made.Status.Phase = corev1.PodPending
	_ = k.store.create(made) // this sync observed no pod of the name
}

// replaceOldPods deletes pods of other revisions, at most maxUnavailable.
func (k *statefulSetSync) replaceOldPods() {
	from, spare := 0, k.maxUnavailable()
	if u := k.set.Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil {
		from = min(int(*u.Partition), k.size())
	}
	for _, p := range k.replicas {
		if isUnavailable(p) {
			spare--
		}
	}
	for _, p := range slices.Backward(k.replicas[from:]) {
		if p.Labels[ordinalKey] == k.update.Name || isTerminating(p) || !isCreated(p) {
			continue
		}
		switch {
		case !k.isOrdered() && !isReady(p): // it is unavailable already
		case spare > 0:
			spare--
		default:
			continue
		}
		k.status.CurrentReplicas--
		_ = k.store.remove(p)
	}
}

func (k *statefulSetSync) maxUnavailable() int {
	_, n := statefulSets{}.limits(k.set, int32(k.size()))
	return int(n)
}

func (k *statefulSetSync) countPods() {
	for _, p := range slices.Concat(k.replicas, k.condemned) {
		if !isCreated(p) {
			continue
		}
		k.status.Replicas++
		if isReady(p) {
			k.status.ReadyReplicas++
			k.status.AvailableReplicas++
		}
		if isTerminating(p) {
			continue
		}
		if p.Labels[ordinalKey] == k.current.Name {
			k.status.CurrentReplicas++
		}
		if p.Labels[ordinalKey] == k.update.Name {
			k.status.UpdatedReplicas++
		}
	}
}

// completeUpdate makes the update revision current when it has all pods, and writes the status.
func (k *statefulSetSync) completeUpdate() {
	n := int32(k.size())
	if k.status.UpdatedReplicas == n && k.status.ReadyReplicas == n && k.status.Replicas == n {
		k.status.CurrentReplicas, k.status.CurrentRevision = n, k.status.UpdateRevision
	}
	set := clone(find[*appsv1.StatefulSet](k.store.objects, kindStatefulSet, k.set.Name))
	set.Status = k.status
	_ = k.store.updateStatus(set)
}

// truncateHistory deletes the oldest unused revisions beyond the history limit.
func (k *statefulSetSync) truncateHistory() {
	live := map[string]bool{k.current.Name: true, k.update.Name: true}
	for _, p := range slices.Concat(k.replicas, k.condemned) {
		live[p.Labels[ordinalKey]] = true
	}
	past := slices.DeleteFunc(slices.Clone(k.revisions), func(r *appsv1.ControllerRevision) bool { return live[r.Name] })
	slices.SortStableFunc(past, func(a, b *appsv1.ControllerRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	for _, r := range past[:max(len(past)-int(*k.set.Spec.RevisionHistoryLimit), 0)] {
		_ = k.store.remove(r)
	}
}

// missingAllowed returns maxUnavailable, at least one pod.
func missingAllowed(u *appsv1.RollingUpdateStatefulSetStrategy, n int32) int32 {
	if u == nil || u.MaxUnavailable == nil {
		return 1
	}
	m, _ := intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, int(n), false)
	return max(int32(m), 1)
}

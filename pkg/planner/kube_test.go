// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The native Deployment controller, as far as it matters to a release: one sync, in the order of
// kube-controller-manager.

const (
	revisionKey = "deployment.kubernetes.io/revision"
	desiredKey  = "deployment.kubernetes.io/desired-replicas"
	maxKey      = "deployment.kubernetes.io/max-replicas"
	hashKey     = appsv1.DefaultDeploymentUniqueLabelKey
)

// notCopied are the annotations of a Deployment that its ReplicaSets do not inherit.
var notCopied = []string{revisionKey, desiredKey, maxKey, "deployment.kubernetes.io/revision-history"}

// deploymentSync is one sync of one Deployment. The first failed write ends the sync.
type deploymentSync struct {
	store *store
	d     *appsv1.Deployment
	// update is the set with the live template, or nil before it exists. old are the other sets by
	// age.
	update *appsv1.ReplicaSet
	old    []*appsv1.ReplicaSet
}

// syncDeployment runs one sync of the native controller.
func syncDeployment(s *store, name string) {
	d := find[*appsv1.Deployment](s.objects, kindDeployment, name)
	if d == nil || d.DeletionTimestamp != nil {
		return
	}
	k := &deploymentSync{store: s, d: clone(d)}
	k.listSets()
	switch {
	case d.Spec.Paused:
		k.numberUpdateSet()
		k.scalePaused()
		k.pruneHistory()
	case k.isScaling():
		k.numberUpdateSet()
		k.scalePaused()
	case d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		k.recreatePods()
	default:
		k.rollPods()
	}
	k.writeStatus()
}

func (k *deploymentSync) listSets() {
	k.update, k.old = nil, nil
	k.adoptOrphans()
	for _, rs := range byAge(listOf[*appsv1.ReplicaSet](k.store.objects)) {
		switch {
		case !metav1.IsControlledBy(rs, k.d):
		case k.update == nil && haveEqualTemplates(rs, k.d):
			k.update = clone(rs)
		default:
			k.old = append(k.old, clone(rs))
		}
	}
}

// adoptOrphans adopts sets without a controller that the selector selects.
func (k *deploymentSync) adoptOrphans() {
	selector, err := metav1.LabelSelectorAsSelector(k.d.Spec.Selector)
	for _, rs := range listOf[*appsv1.ReplicaSet](k.store.objects) {
		if err != nil || metav1.GetControllerOf(rs) != nil || rs.DeletionTimestamp != nil || !selector.Matches(labels.Set(rs.Labels)) {
			continue
		}
		want := clone(rs)
		want.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(k.d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		_ = k.store.update(want) // it was read in this sync
	}
}

func byAge(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	slices.SortStableFunc(sets, func(a, b *appsv1.ReplicaSet) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return sets
}

// haveEqualTemplates compares templates without the hash label.
func haveEqualTemplates(rs *appsv1.ReplicaSet, d *appsv1.Deployment) bool {
	a, b := rs.Spec.Template, d.Spec.Template
	return maps.Equal(withoutKey(a.Labels, hashKey), withoutKey(b.Labels, hashKey)) && maps.Equal(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec)
}

func (k *deploymentSync) allSets() []*appsv1.ReplicaSet {
	sets := slices.Clone(k.old)
	if k.update != nil {
		sets = append(sets, k.update)
	}
	return sets
}

func (k *deploymentSync) activeSets() []*appsv1.ReplicaSet {
	return slices.DeleteFunc(k.allSets(), func(rs *appsv1.ReplicaSet) bool { return *rs.Spec.Replicas == 0 })
}

func (k *deploymentSync) replicas() int32 { return *k.d.Spec.Replicas }

func (k *deploymentSync) isRollingUpdate() bool {
	return k.d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType
}

// surge returns the maxSurge of the strategy.
func (k *deploymentSync) surge() int32 {
	surge, _ := limitsOf(k.d.Spec.Strategy.RollingUpdate, k.replicas())
	return surge
}

func limitsOf(u *appsv1.RollingUpdateDeployment, n int32) (surge, unavailable int32) {
	if u == nil {
		return 0, 0
	}
	up, _ := intstr.GetScaledValueFromIntOrPercent(u.MaxSurge, int(n), true)
	down, _ := intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, int(n), false)
	if up == 0 && down == 0 {
		down = 1
	}
	return int32(up), min(int32(down), n)
}

// isScaling reports whether an active set was sized for another number of replicas.
func (k *deploymentSync) isScaling() bool {
	for _, rs := range k.activeSets() {
		if desired, ok := intAnnotation(rs, desiredKey); ok && desired != k.replicas() {
			return true
		}
	}
	return false
}

func intAnnotation(rs *appsv1.ReplicaSet, annotation string) (int32, bool) {
	n, err := strconv.ParseInt(rs.Annotations[annotation], 10, 32)
	return int32(n), err == nil
}

// numberUpdateSet gives the update set its revision number and the annotations of the Deployment.
func (k *deploymentSync) numberUpdateSet() {
	if k.update == nil {
		return
	}
	want := clone(k.update)
	k.copyAnnotations(want)
	k.storeSet(k.update, want)
	k.setRevision(want.Annotations[revisionKey])
}

func (k *deploymentSync) setRevision(revision string) {
	if k.d.Annotations[revisionKey] == revision {
		return
	}
	d := clone(k.d)
	d.Annotations = maps.Clone(d.Annotations)
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[revisionKey] = revision
	if k.store.updateStatus(d) == nil {
		k.d = clone(find[*appsv1.Deployment](k.store.objects, kindDeployment, d.Name))
	}
}

func (k *deploymentSync) copyAnnotations(rs *appsv1.ReplicaSet) {
	m := maps.Clone(rs.Annotations)
	if m == nil {
		m = map[string]string{}
	}
	for key, value := range k.d.Annotations {
		if !slices.Contains(notCopied, key) {
			m[key] = value
		}
	}
	var highest int64
	for _, old := range k.old {
		n, _ := strconv.ParseInt(old.Annotations[revisionKey], 10, 64)
		highest = max(highest, n)
	}
	if n, err := strconv.ParseInt(m[revisionKey], 10, 64); err != nil || n < highest+1 {
		m[revisionKey] = strconv.FormatInt(highest+1, 10)
	}
	rs.Annotations = m
	rs.Spec.MinReadySeconds = k.d.Spec.MinReadySeconds
}

// storeSet stores want and copies the stored object to rs.
func (k *deploymentSync) storeSet(rs, want *appsv1.ReplicaSet) {
	if k.store.update(want) != nil {
		return
	}
	*rs = *clone(find[*appsv1.ReplicaSet](k.store.objects, kindSet, rs.Name))
}

// resizeSet writes the size and the size annotations.
func (k *deploymentSync) resizeSet(rs *appsv1.ReplicaSet, size int32) {
	want := clone(rs)
	want.Spec.Replicas = &size
	want.Annotations = maps.Clone(want.Annotations)
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	want.Annotations[desiredKey] = strconv.Itoa(int(k.replicas()))
	want.Annotations[maxKey] = strconv.Itoa(int(k.replicas() + k.surge()))
	k.storeSet(rs, want)
}

// scaleSetTo resizes the set if its size differs, and reports whether it did.
func (k *deploymentSync) scaleSetTo(rs *appsv1.ReplicaSet, size int32) bool {
	if *rs.Spec.Replicas == size {
		return false
	}
	k.resizeSet(rs, size)
	return true
}

// scalePaused scales the sets in each sync of a paused Deployment.
func (k *deploymentSync) scalePaused() {
	active := k.activeSets()
	switch {
	case len(active) == 0 && k.update != nil:
		k.scaleSetTo(k.update, k.replicas())
	case len(active) == 0 && len(k.old) > 0:
		k.scaleSetTo(k.old[len(k.old)-1], k.replicas())
	case len(active) == 0:
	case len(active) == 1:
		k.scaleSetTo(active[0], k.replicas())
	case k.isUpdateSetComplete():
		for _, rs := range k.old {
			k.scaleSetTo(rs, 0)
		}
	case k.isRollingUpdate():
		k.spreadSizes(active)
	}
}

func (k *deploymentSync) isUpdateSetComplete() bool {
	if k.update == nil {
		return false
	}
	desired, ok := intAnnotation(k.update, desiredKey)
	return ok && desired == k.replicas() && *k.update.Spec.Replicas == k.replicas() && k.update.Status.AvailableReplicas == k.replicas()
}

// spreadSizes scales all active sets in proportion, so that their sum is replicas plus surge.
func (k *deploymentSync) spreadSizes(active []*appsv1.ReplicaSet) {
	var sum, allowed int32
	for _, rs := range active {
		sum += *rs.Spec.Replicas
	}
	if k.replicas() > 0 {
		allowed = k.replicas() + k.surge()
	}
	add := allowed - sum
	slices.SortStableFunc(active, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(*b.Spec.Replicas, *a.Spec.Replicas) })
	sizes := make([]int32, len(active))
	var added int32
	for i, rs := range active {
		sizes[i] = *rs.Spec.Replicas
		if add != 0 && add != added {
			part := k.proportionalChange(rs, allowed)
			if add > 0 {
				part = min(part, add-added)
			} else {
				part = max(part, add-added)
			}
			sizes[i] += part
			added += part
		}
	}
	sizes[0] = max(sizes[0]+add-added, 0)
	for i, rs := range active {
		k.resizeSet(rs, sizes[i])
	}
}

func (k *deploymentSync) proportionalChange(rs *appsv1.ReplicaSet, allowed int32) int32 {
	size := *rs.Spec.Replicas
	if k.replicas() == 0 {
		return -size
	}
	before, ok := intAnnotation(rs, maxKey)
	if !ok || before == 0 {
		before = max(k.d.Status.Replicas, 1)
	}
	return int32(math.Round(float64(size)*float64(allowed)/float64(before))) - size
}

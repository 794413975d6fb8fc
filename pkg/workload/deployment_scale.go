// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// ScalingFacts implements replicaSetSizer. Weir sizes the ReplicaSets while the Deployment is
// paused, and is held or has a target.
func (deployment) ScalingFacts(obj object.Object, owned []object.Object, hold Hold) (sizes.Scaling, bool) {
	d := obj.(*appsv1.Deployment)
	v := hold.strategy
	if !isSizedByWeir(d, hold) || !isObservedOrNew(d, hold) {
		return sizes.Scaling{}, false
	}
	recreates := d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
	// Between two releases there is no target, and pods of both revisions may exist.
	between := hold.Target() == nil && recreates
	n := replicas(d)
	r := findRevisions(d, owned, hold)
	r, other := r.withTargetSet(d, hold)
	r, another := r.withAbortedSet(hold, other)
	s := sizes.Scaling{
		Replicas: n,
		Target:   v.target().Limit(n),
		// In a canary release the extra Deployment gets the share, never the ReplicaSets.
		AllPods: v.target().IsAllPods(n) && v.RollingStyle != rollouts.StyleCanary,
		// A blue-green release that Weir sizes keeps its share while stable returns.
		Abort:               v.Abort || v.RollingStyle == rollouts.StyleBlueGreen,
		ResumesNatively:     v.RollingStyle == rollouts.StyleBlueGreen,
		OwnerStrategyActive: !recreates,
		Frozen:              v.Paused || other || between,
		AnnotationDriven:    hold.annotationDriven(),
	}
	s.Surge, s.Unavailable = ownerLimits(d, hold)
	allowSurge(&s, r, v)
	assignRoles(&s, d, r, hold, another)
	if between {
		keepBetweenReleases(&s)
	}
	return s, true
}

// keepBetweenReleases keeps the pods of the update revision as far as the size allows. Stable
// follows the size.
func keepBetweenReleases(s *sizes.Scaling) {
	if s.AllPods {
		return
	}
	s.Abort = true
	if s.Update != nil {
		s.Target = planner.Target{Partition: intstr.FromInt32(s.Update.Replicas), KeepOne: true}.Limit(s.Replicas)
	}
}

// allowSurge lets a blue-green release have pods in addition to those of stable. Pods that an abort
// has left are removed before a release begins again.
func allowSurge(s *sizes.Scaling, r revisions, v strategyRecord) {
	if !s.ResumesNatively {
		return
	}
	if !v.Abort {
		s.Target = podsOfShare(v.Partition, s.Replicas)
	}
	if becomesAvailable(r.update) {
		s.Target = 0
	}
	s.Surge = max(s.Surge, s.Target)
}

// isObservedOrNew reports whether the native controller acts on the Deployment as it is. A
// Deployment that a client created with the annotation in it has no earlier state, so its pods are
// created before the controller has observed it.
func isObservedOrNew(d *appsv1.Deployment, hold Hold) bool {
	return isObserved(d) || hold.annotationDriven() && d.Generation == 1
}

// isSizedByWeir reports whether Weir sizes the ReplicaSets. In the blue-green style it does so only
// while the native controller is stopped. In the canary style it does so at size 0: otherwise the
// native controller would later give the new pods to the wrong ReplicaSet.
func isSizedByWeir(d *appsv1.Deployment, hold Hold) bool {
	style := hold.strategy.RollingStyle
	here := !isSizedNatively(style) || style == rollouts.StyleBlueGreen && isStopped(d) ||
		style == rollouts.StyleCanary && replicas(d) == 0
	return d.DeletionTimestamp == nil && d.Spec.Paused && here && (hold.Target() != nil || hold.Held && !isStableUnknown(d, hold))
}

// isSizedNatively reports whether the native controller sizes the ReplicaSets in this style.
func isSizedNatively(style rollouts.Style) bool {
	return style == rollouts.StyleCanary || style == rollouts.StyleBlueGreen
}

// isStableUnknown reports whether nothing shows which ReplicaSet is stable: none has pods, and no
// record names one.
func isStableUnknown(d *appsv1.Deployment, hold Hold) bool {
	return replicas(d) == 0 && hold.Stable == ""
}

// assignRoles assigns ReplicaSets to their roles. If the live template is the stable one, or is the
// only one known, it gets all pods. This waits while the target is for another revision, because the
// next target will name the live one.
func assignRoles(s *sizes.Scaling, d *appsv1.Deployment, r revisions, hold Hold, other bool) {
	s.Update = setFacts(r.update)
	if r.stable != r.update {
		s.Stable = setFacts(r.stable)
	}
	s.Others = otherSets(r)
	none := len(r.all) == 0 && r.stableRevision == ""
	switch {
	case !other && r.hasStableTemplate(d) && returnsByShare(d, r, hold) && newestActive(s.Others) >= 0:
		// Pods of the revision that is being left are replaced, as stable pods were before.
		useAsStable(s, newestActive(s.Others))
	case none || r.hasStableTemplate(d) && !other:
		s.Target, s.AllPods, s.Abort = s.Replicas, true, false
	}
}

func otherSets(r revisions) []sizes.Set {
	var sets []sizes.Set
	for _, rs := range r.all {
		if rs != r.update && rs != r.stable {
			sets = append(sets, *setFacts(rs))
		}
	}
	return sets
}

// useAsStable moves a ReplicaSet from the others to the stable role.
func useAsStable(s *sizes.Scaling, i int) {
	set := s.Others[i]
	s.Stable = &set
	s.Others = slices.Delete(s.Others, i, i+1)
}

// returnsByShare reports whether the stable template is itself released in steps.
func returnsByShare(d *appsv1.Deployment, r revisions, hold Hold) bool {
	target := hold.Target()
	return target != nil && !target.Abort && target.Revision != (planner.Revision{}) && r.hasLiveRevision(d, target.Revision) && replicas(d) > 0 &&
		!target.IsAllPods(replicas(d))
}

// newestActive returns the index of the newest ReplicaSet with pods; -1 if there is none.
func newestActive(sets []sizes.Set) int {
	at := -1
	for i := range sets {
		if sets[i].Replicas > 0 && (at < 0 || sets[i].Revision > sets[at].Revision) {
			at = i
		}
	}
	return at
}

// resolveLimits returns the owner's surge, rounded up, and unavailability, rounded down. At least
// one of them is positive. Size plus surge fits an int32.
func resolveLimits(u *appsv1.RollingUpdateDeployment, replicas int32) (surge, unavailable int32) {
	if u != nil {
		surge = min(resolveShare(u.MaxSurge, replicas, true), math.MaxInt32-replicas)
		unavailable = min(resolveShare(u.MaxUnavailable, replicas, false), replicas)
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

func resolveShare(v *intstr.IntOrString, replicas int32, up bool) int32 {
	if v == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, int(replicas), up)
	if err != nil {
		return 0
	}
	return int32(min(max(n, 0), math.MaxInt32))
}

func setFacts(rs *appsv1.ReplicaSet) *sizes.Set {
	if rs == nil {
		return nil
	}
	exist := min(rs.Status.Replicas, size(rs))
	return &sizes.Set{
		Name:               rs.Name,
		Replicas:           size(rs),
		Ready:              min(rs.Status.ReadyReplicas, exist),
		Available:          min(availableReplicas(rs), exist),
		HasStaleCounters:   HasStaleCounters(rs),
		IsShrinking:        rs.Status.Replicas > size(rs),
		Revision:           revisionNumber(rs),
		Created:            rs.CreationTimestamp.Time,
		HasSizeAnnotations: hasSizeAnnotations(rs),
		NotedReplicas:      notedReplicas(rs),
	}
}

func availableReplicas(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.MinReadySeconds == foreverReady {
		return rs.Status.ReadyReplicas // no pod counts as available, but all ready pods serve
	}
	return rs.Status.AvailableReplicas
}

// HasStaleCounters reports whether the counters of a ReplicaSet are not reliable because its
// controller has not observed the latest changes. After one change of the size the counters are
// still an upper bound. After two changes pods may have been removed in between.
func HasStaleCounters(rs *appsv1.ReplicaSet) bool {
	unseen := rs.Generation - rs.Status.ObservedGeneration
	return unseen > 1 || unseen > 0 && availableReplicas(rs) < rs.Status.ReadyReplicas
}

// ResizeReplicaSets implements replicaSetSizer.
func (deployment) ResizeReplicaSets(obj object.Object, owned []object.Object, hold Hold, scale sizes.Scale) ([]object.Change, error) {
	d := obj.(*appsv1.Deployment)
	r := findRevisions(d, owned, hold)
	var changes []object.Change
	for _, step := range scale.Steps {
		rs := r.update
		if step.Name != "" {
			rs = r.byName(step.Name)
		}
		switch {
		case rs == nil && step.Name != "":
			return nil, fmt.Errorf("sizing replicaset %s: deployment %s does not have it", step.Name, d.Name)
		case rs == nil:
			changes = append(changes, object.Change{Want: newReplicaSet(d, owned, scale, step.Replicas)})
		case step.Delete:
			changes = append(changes, object.Change{Base: rs})
		default:
			changes = append(changes, changesBetween(rs, resizeSet(rs, scale, step.Replicas))...)
		}
	}
	return changes, nil
}

func (r revisions) byName(name string) *appsv1.ReplicaSet {
	for _, rs := range r.all {
		if rs.Name == name {
			return rs
		}
	}
	return nil
}

// resizeSet returns a ReplicaSet with another size.
func resizeSet(rs *appsv1.ReplicaSet, scale sizes.Scale, replicas int32) *appsv1.ReplicaSet {
	want := rs.DeepCopy()
	want.Spec.Replicas = &replicas
	annotateSizes(want, scale)
	return want
}

// annotateSizes writes the native controller's size annotations, or removes them if they would make
// it scale other ReplicaSets.
func annotateSizes(rs *appsv1.ReplicaSet, scale sizes.Scale) {
	if scale.DesiredAnnotation == 0 {
		rs.Annotations = withoutKeys(rs.Annotations, annotationDesired, annotationMax)
		return
	}
	setAnnotation(rs, annotationDesired, strconv.Itoa(int(scale.DesiredAnnotation)))
	setAnnotation(rs, annotationMax, strconv.Itoa(int(scale.MaxAnnotation)))
}

// newReplicaSet returns the ReplicaSet that the native controller would create for the live
// template. With any other difference in the template, the native controller would create a second
// one.
func newReplicaSet(d *appsv1.Deployment, owned []object.Object, scale sizes.Scale, replicas int32) *appsv1.ReplicaSet {
	name, hash := freeReplicaSetName(d, owned)
	template := *d.Spec.Template.DeepCopy()
	template.Labels = withHash(template.Labels, hash)
	selector := d.Spec.Selector.DeepCopy()
	if selector == nil {
		selector = &metav1.LabelSelector{}
	}
	selector.MatchLabels = withHash(selector.MatchLabels, hash)
	rs := &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       d.Namespace,
			Name:            name,
			Labels:          maps.Clone(template.Labels),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, deploymentKind)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        &replicas,
			MinReadySeconds: d.Spec.MinReadySeconds,
			Selector:        selector,
			Template:        template,
		},
	}
	annotateSizes(rs, scale)
	return rs
}

func withHash(m map[string]string, hash string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	m[hashLabel] = hash
	return m
}

// freeReplicaSetName increments the collision count until the name is free.
func freeReplicaSetName(d *appsv1.Deployment, owned []object.Object) (name, hash string) {
	taken := map[string]bool{}
	for _, rs := range replicaSets(owned) {
		taken[rs.Name] = true
	}
	for collisions := uint32(0); ; collisions++ {
		hash = hashWithCollisions(&d.Spec.Template, collisions)
		name = nameWithHash(d.Name, hash)
		if !taken[name] {
			return name, hash
		}
	}
}

func nameWithHash(deployment, hash string) string {
	longest := validation.DNS1123SubdomainMaxLength - len(hash) - 1
	return deployment[:min(len(deployment), longest)] + "-" + hash
}

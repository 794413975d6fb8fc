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

// Scaling implements setSizer. Sizes are decided here while the Deployment is
// under control: paused, and driven or held.
func (deployment) Scaling(obj object.Object, owned []object.Object, hold Hold) (sizes.Scaling, bool) {
	d := obj.(*appsv1.Deployment)
	v := hold.strategy
	if !sizedHere(d, hold) || !known(d, hold) {
		return sizes.Scaling{}, false
	}
	recreates := d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
	// Between two releases nothing is told, and pods of both may be there.
	between := hold.Target() == nil && recreates
	n := replicas(d)
	r := findRevisions(d, owned, hold)
	r, other := r.driven(d, hold)
	r, another := r.takenBack(hold, other)
	s := sizes.Scaling{
		Replicas: n,
		Target:   v.target().Limit(n),
		// The extra Deployment of a canary release has the share, and never the sets.
		Full: v.target().IsAllPods(n) && v.RollingStyle != rollouts.StyleCanary,
		// A blue-green release that is sized here keeps its share while stable comes back.
		Abort:   v.Abort || v.RollingStyle == rollouts.StyleBlueGreen,
		Resumes: v.RollingStyle == rollouts.StyleBlueGreen,
		Native:  !recreates,
		Frozen:  v.Paused || other || between,
		Alone:   hold.annotationDriven(),
	}
	s.Surge, s.Unavailable = ownersLimits(d, hold)
	besideStable(&s, r, v)
	assign(&s, d, r, hold, another)
	if between {
		stayBetween(&s)
	}
	return s, true
}

// stayBetween keeps what there is of the update revision where it fits, and lets
// stable follow the size.
func stayBetween(s *sizes.Scaling) {
	if s.Full {
		return
	}
	s.Abort = true
	if s.Update != nil {
		s.Target = planner.Target{Partition: intstr.FromInt32(s.Update.Replicas), KeepOne: true}.Limit(s.Replicas)
	}
}

// besideStable lets pods be there beside those of stable. What an abort has left goes
// before a release begins again.
func besideStable(s *sizes.Scaling, r revisions, v strategyRecord) {
	if !s.Resumes {
		return
	}
	if !v.Abort {
		s.Target = brings(v.Partition, s.Replicas)
	}
	if hurries(r.update) {
		s.Target = 0
	}
	s.Surge = max(s.Surge, s.Target)
}

// known reports whether the native controller acts on the Deployment as it is. It cannot
// know one as it was before it was made: what is made under control gets its pods
// before it is changed.
func known(d *appsv1.Deployment, hold Hold) bool {
	return settled(d) || hold.annotationDriven() && d.Generation == 1
}

// sizedHere reports whether sizes are decided here: those of a blue-green release only
// while the native controller is stopped, and those of a canary one at size 0, lest
// it give the pods that come to the wrong set.
func sizedHere(d *appsv1.Deployment, hold Hold) bool {
	style := hold.strategy.RollingStyle
	here := !sizedElsewhere(style) || style == rollouts.StyleBlueGreen && stopped(d) ||
		style == rollouts.StyleCanary && replicas(d) == 0
	return d.DeletionTimestamp == nil && d.Spec.Paused && here && (hold.Target() != nil || hold.Held && !ambiguous(d, hold))
}

// sizedElsewhere reports whether the native controller sizes the sets.
func sizedElsewhere(style rollouts.Style) bool {
	return style == rollouts.StyleCanary || style == rollouts.StyleBlueGreen
}

// ambiguous reports whether nothing says which set is stable: none has pods, and none
// is named.
func ambiguous(d *appsv1.Deployment, hold Hold) bool {
	return replicas(d) == 0 && hold.Stable == ""
}

// assign gives sets their parts. Where the live template is the stable one, or
// nothing but it is known, there is nothing to hold back for: it gets all pods. Not yet where
// what was told is about another revision: it is about to be told so.
func assign(s *sizes.Scaling, d *appsv1.Deployment, r revisions, hold Hold, other bool) {
	s.Update = facts(r.update)
	if r.stable != r.update {
		s.Stable = facts(r.stable)
	}
	s.Others = others(r)
	none := len(r.all) == 0 && r.stableRevision == ""
	switch {
	case !other && r.atStable(d) && backByShare(d, r, hold) && left(s.Others) >= 0:
		// Pods of the revision that is left give way as stable ones did before.
		giveWay(s, left(s.Others))
	case none || r.atStable(d) && !other:
		s.Target, s.Full, s.Abort = s.Replicas, true, false
	}
}

func others(r revisions) []sizes.Set {
	var sets []sizes.Set
	for _, rs := range r.all {
		if rs != r.update && rs != r.stable {
			sets = append(sets, *facts(rs))
		}
	}
	return sets
}

// giveWay makes one of the other sets the one that pods come from.
func giveWay(s *sizes.Scaling, i int) {
	set := s.Others[i]
	s.Stable = &set
	s.Others = slices.Delete(s.Others, i, i+1)
}

// backByShare reports whether the stable template is itself released by share.
func backByShare(d *appsv1.Deployment, r revisions, hold Hold) bool {
	target := hold.Target()
	return target != nil && !target.Abort && target.Revision != (planner.Revision{}) && r.releases(d, target.Revision) && replicas(d) > 0 &&
		!target.IsAllPods(replicas(d))
}

// left is the newest set that has pods, or -1.
func left(sets []sizes.Set) int {
	at := -1
	for i := range sets {
		if sets[i].Replicas > 0 && (at < 0 || sets[i].Revision > sets[at].Revision) {
			at = i
		}
	}
	return at
}

// limits are the owner's surge, rounded up, and unavailable, rounded down. One
// of them must allow something to move. The size and its surge are a size together.
func limits(u *appsv1.RollingUpdateDeployment, replicas int32) (surge, unavailable int32) {
	if u != nil {
		surge = min(scaled(u.MaxSurge, replicas, true), math.MaxInt32-replicas)
		unavailable = min(scaled(u.MaxUnavailable, replicas, false), replicas)
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

func scaled(v *intstr.IntOrString, replicas int32, up bool) int32 {
	if v == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, int(replicas), up)
	if err != nil {
		return 0
	}
	return int32(min(max(n, 0), math.MaxInt32))
}

func facts(rs *appsv1.ReplicaSet) *sizes.Set {
	if rs == nil {
		return nil
	}
	exist := min(rs.Status.Replicas, size(rs))
	return &sizes.Set{
		Name:      rs.Name,
		Replicas:  size(rs),
		Ready:     min(rs.Status.ReadyReplicas, exist),
		Available: min(available(rs), exist),
		Unjudged:  Unjudged(rs),
		Shrinks:   rs.Status.Replicas > size(rs),
		Revision:  revision(rs),
		Created:   rs.CreationTimestamp.Time,
		Annotated: annotated(rs),
		Noted:     noted(rs),
	}
}

func available(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.MinReadySeconds == foreverReady {
		return rs.Status.ReadyReplicas // none is counted, and all serve
	}
	return rs.Status.AvailableReplicas
}

// Unjudged reports whether the controller of the set has not seen what makes its
// counters mean something else. After one change of the size they are still an
// upper bound, but between two of them pods may have gone.
func Unjudged(rs *appsv1.ReplicaSet) bool {
	unseen := rs.Generation - rs.Status.ObservedGeneration
	return unseen > 1 || unseen > 0 && available(rs) < rs.Status.ReadyReplicas
}

// Sets implements setSizer.
func (deployment) Sets(obj object.Object, owned []object.Object, hold Hold, scale sizes.Scale) ([]object.Change, error) {
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
			changes = append(changes, object.Change{Want: created(d, owned, scale, step.Replicas)})
		case step.Delete:
			changes = append(changes, object.Change{Base: rs})
		default:
			changes = append(changes, change(rs, resized(rs, scale, step.Replicas))...)
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

// resized is a set with another size.
func resized(rs *appsv1.ReplicaSet, scale sizes.Scale, replicas int32) *appsv1.ReplicaSet {
	want := rs.DeepCopy()
	want.Spec.Replicas = &replicas
	note(want, scale)
	return want
}

// note writes the native controller's notes on sizes, or removes them where
// they would make it scale other sets.
func note(rs *appsv1.ReplicaSet, scale sizes.Scale) {
	if scale.Note == 0 {
		rs.Annotations = without(rs.Annotations, annotationDesired, annotationMax)
		return
	}
	annotate(rs, annotationDesired, strconv.Itoa(int(scale.Note)))
	annotate(rs, annotationMax, strconv.Itoa(int(scale.NoteMax)))
}

// created is the ReplicaSet that the native controller would make of the live
// template. Anything more in the template and it would make a second one.
func created(d *appsv1.Deployment, owned []object.Object, scale sizes.Scale, replicas int32) *appsv1.ReplicaSet {
	name, hash := freeName(d, owned)
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
	note(rs, scale)
	return rs
}

func withHash(m map[string]string, hash string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	m[hashKey] = hash
	return m
}

// freeName counts collisions up until a name is free.
func freeName(d *appsv1.Deployment, owned []object.Object) (name, hash string) {
	taken := map[string]bool{}
	for _, rs := range replicaSets(owned) {
		taken[rs.Name] = true
	}
	for collisions := uint32(0); ; collisions++ {
		hash = collidedHash(&d.Spec.Template, collisions)
		name = setName(d.Name, hash)
		if !taken[name] {
			return name, hash
		}
	}
}

func setName(deployment, hash string) string {
	longest := validation.DNS1123SubdomainMaxLength - len(hash) - 1
	return deployment[:min(len(deployment), longest)] + "-" + hash
}

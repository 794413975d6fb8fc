// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package sizes decides the next sizes of the ReplicaSets of a held Deployment. It is a pure
// function. It does not know about Rollouts, steps or traffic.
package sizes

import (
	"cmp"
	"slices"
)

// Decide returns the next sizes of the ReplicaSets of a held Deployment. The native controller
// continues to scale a paused Deployment. The rules follow from that:
//
//   - While one ReplicaSet has pods, the native controller keeps it at the full size and would
//     revert any other size. So the only write is the first pod of the other revision.
//   - While two ReplicaSets have pods, only Weir scales, even to 0.
//   - ReplicaSets grow before others shrink, within surge and unavailable. When the second
//     ReplicaSet gets its first pod, one extra pod is allowed, because the first ReplicaSet cannot
//     shrink before.
//   - At size 0, the native controller would later give all pods to the newest ReplicaSet. So no
//     ReplicaSet newer than stable may remain then.
//
// A Deployment that only an annotation drives follows other rules: see annotationSizing.
func Decide(s Scaling) Scale {
	switch {
	case s.Replicas == 0:
		return sizeZero(s)
	case s.AnnotationDriven && !s.OwnerStrategyActive:
		return sizeByAnnotation(s)
	case s.isFrozenAndFits():
		return Scale{Rule: "frozen"}
	case s.OwnerStrategyActive:
		return Scale{Rule: "native"}
	case s.isStableGone():
		return Scale{Rule: "stable set is gone"}
	}
	x := sizing{Scaling: s, target: s.Target}
	if s.Abort || s.Frozen {
		// Neither an abort nor a change of the size during a freeze creates update pods.
		x.target = min(s.Target, s.Update.size())
	}
	if s.Abort && s.StableEdited {
		// Update pods replace the pods that stable must not get. If only stable had pods, the
		// native controller would give it the missing ones.
		x.target = max(x.target, min(s.Update.size(), s.Replicas-s.Stable.size()))
	}
	return x.plan()
}

// isStableGone reports whether no stable ReplicaSet exists to return to, or to start from. The
// native controller would give all pods to the first ReplicaSet that has one.
func (s *Scaling) isStableGone() bool {
	x := sizing{Scaling: *s}
	return s.Stable == nil && (s.Abort || !s.AllPods && x.total() == 0)
}

// isFrozenAndFits reports whether the sizes are frozen and add up to the size of the Deployment,
// which may change during a freeze.
func (s *Scaling) isFrozenAndFits() bool {
	x := sizing{Scaling: *s}
	return s.Frozen && !s.ResumesNatively && s.Update.size() <= s.Target && x.total() >= s.Replicas && x.total() <= s.Replicas+s.Surge
}

// sizing is the working state of one pass.
type sizing struct {
	Scaling
	target int32
	steps  []Step
}

func (s *Set) size() int32 {
	if s == nil {
		return 0
	}
	return s.Replicas
}

// available returns the available pods that stay. Right after a write the counters still belong to
// the larger size.
func (s *Set) available() int32 {
	if s == nil {
		return 0
	}
	return min(s.Available, s.Replicas)
}

// ready returns the ready pods that stay, including those that are not available yet.
func (s *Set) ready() int32 {
	if s == nil {
		return 0
	}
	return min(s.Ready, s.Replicas)
}

func (x *sizing) plan() Scale {
	if sole := x.onlyActive(); sole != nil && sole.Replicas != x.Replicas {
		return Scale{Rule: "native controller sizes the only set"}
	}
	x.removeNotesOfFullUpdate()
	x.raise()
	x.lower()
	x.makeRoom()
	rule := "sized"
	switch {
	case len(x.steps) > 0 && x.Abort:
		rule = "bring stable back"
	case len(x.steps) > 0:
		rule = "bring update up"
	}
	scale := Scale{Steps: x.steps, Rule: rule}
	if x.ResumesNatively {
		scale.DesiredAnnotation, scale.MaxAnnotation = x.Replicas, x.Replicas+x.Target
	}
	return scale
}

// onlyActive returns the only ReplicaSet that has pods, or nil.
func (x *sizing) onlyActive() *Set {
	var active []*Set
	for _, s := range x.sets() {
		if s.Replicas > 0 {
			active = append(active, s)
		}
	}
	if len(active) != 1 {
		return nil
	}
	return active[0]
}

func (x *sizing) sets() []*Set {
	var sets []*Set
	for _, s := range []*Set{x.Update, x.Stable} {
		if s != nil {
			sets = append(sets, s)
		}
	}
	for i := range x.Others {
		sets = append(sets, &x.Others[i])
	}
	return sets
}

func (x *sizing) total() int32 {
	var n int32
	for _, s := range x.sets() {
		n += s.Replicas
	}
	return n
}

// stableTarget returns the desired size of stable. During an abort it is the full size, even while
// update pods stay for a router. The last pod stays while a Service selects no other revision, even
// if the owner has made the Deployment so small that the step leaves no pod to stable.
func (x *sizing) stableTarget() int32 {
	switch {
	case x.Abort:
		return x.Replicas
	case x.Stable.size() > 0 && x.Stable.Name == x.PinnedSet:
		return max(x.Replicas-x.target, 1)
	default:
		return x.Replicas - x.target
	}
}

// removeNotesOfFullUpdate removes the size annotations of an update ReplicaSet that is full, or
// would be full if the size changed back, before another ReplicaSet gets pods. If a ReplicaSet is
// full and available according to its annotation, the native controller scales all others to 0 at
// once.
func (x *sizing) removeNotesOfFullUpdate() {
	u := x.Update
	if u != nil && u.HasSizeAnnotations && !x.ResumesNatively && (u.Replicas >= x.Replicas || u.Replicas == u.NotedReplicas) && x.stableTarget() > 0 {
		x.write(u, u.Replicas)
	}
}

// raise lets ReplicaSets grow within the surge: the update ReplicaSet first, or stable first during
// an abort.
func (x *sizing) raise() {
	surge := x.Surge
	if x.needsFirstPod() {
		surge = max(surge, 1)
	}
	x.raiseBy(x.Replicas + surge - x.total())
}

// needsFirstPod reports whether one of the two revisions is to get its first pod.
func (x *sizing) needsFirstPod() bool {
	return (x.Update.size() == 0 && x.target > 0) || (x.Stable != nil && x.Stable.size() == 0 && x.stableTarget() > 0)
}

func (x *sizing) raiseBy(room int32) {
	update := func() {
		grow := min(room, x.target-x.Update.size())
		switch {
		case grow <= 0:
			return
		case x.Update == nil:
			x.steps = append(x.steps, Step{Replicas: grow})
		case !x.Update.IsShrinking:
			x.write(x.Update, x.Update.Replicas+grow)
		}
		room -= grow
	}
	stable := func() {
		grow := min(room, x.stableTarget()-x.Stable.size())
		switch {
		case x.Stable == nil || grow <= 0 || x.StableEdited:
			return
		case !x.Stable.IsShrinking:
			x.write(x.Stable, x.Stable.Replicas+grow)
		}
		room -= grow
	}
	if x.Abort {
		stable()
		update()
		return
	}
	update()
	stable()
}

// removalBudget is how many available pods, and how many ready pods, may be removed.
type removalBudget struct{ available, ready int32 }

// take returns how many of the surplus pods of a ReplicaSet may be removed. Unready pods are free.
// Ready pods that are not available yet may go if enough other pods are ready, and available pods if
// enough others are available. The native controller removes pods in the same order.
func (b *removalBudget) take(s *Set, over int32) int32 {
	serves := max(s.ready(), s.available())
	idle := min(over, s.Replicas-serves)
	young := min(over-idle, serves-s.available(), max(b.ready, 0))
	var old int32
	if young == serves-s.available() {
		old = min(over-idle-young, max(b.available, 0))
	}
	b.available, b.ready = b.available-old, b.ready-young-old
	return idle + young + old
}

// lower removes pods from ReplicaSets above their target. ReplicaSets of other revisions shrink
// first, the newest of them before older ones.
func (x *sizing) lower() {
	if x.onlyActive() != nil || slices.ContainsFunc(x.sets(), func(s *Set) bool { return s.HasStaleCounters }) {
		return
	}
	budget := removalBudget{x.Unavailable - x.Replicas, x.Unavailable - x.Replicas}
	for _, s := range x.sets() {
		budget.available += s.available()
		budget.ready += s.ready()
	}
	take := func(s *Set, target int32) {
		if over := s.size() - target; s != nil && over > 0 {
			if n := budget.take(s, over); n > 0 {
				x.write(s, s.Replicas-n)
			}
		}
	}
	others := slices.Clone(x.Others)
	slices.SortFunc(others, func(a, b Set) int { return cmp.Compare(b.Revision, a.Revision) })
	for i := range others {
		take(&others[i], x.keptPods(others[i:]))
	}
	if x.Update.size() > 0 {
		take(x.Stable, x.stableTarget())
	}
	if x.Stable.size() > 0 {
		take(x.Update, x.target)
	}
}

// keptPods returns how many pods the first of these other ReplicaSets keeps for now. Their last pod
// stays while the only remaining ReplicaSet is not full, because the native controller would then
// fill it. If stable is gone, they serve in its place.
func (x *sizing) keptPods(others []Set) int32 {
	if x.Stable == nil {
		left := x.stableTarget()
		for _, s := range others[1:] {
			left -= s.Replicas
		}
		return max(left, 0)
	}
	for _, s := range others[1:] {
		if s.Replicas > 0 {
			return 0
		}
	}
	if x.needsFirstPod() && len(x.steps) == 0 && max(x.Update.size(), x.Stable.size()) < x.Replicas {
		return 1
	}
	return 0
}

// makeRoom removes unavailable stable pods so that the update ReplicaSet can grow, if pods of other
// revisions serve and nothing else can change.
func (x *sizing) makeRoom() {
	need := x.target - x.Update.size()
	idle := x.Stable.size() - x.Stable.available()
	others := x.total() - x.Update.size() - x.Stable.size()
	if len(x.steps) == 0 && !x.Abort && need > 0 && idle > 0 && others > 0 {
		x.write(x.Stable, x.Stable.Replicas-min(idle, need))
	}
	// Three revisions can block each other if none gets ready pods. One pod above the limit is
	// better than a standstill.
	if len(x.steps) == 0 && x.needsFirstPod() && others > 0 {
		x.raiseBy(1)
	}
}

func (x *sizing) write(s *Set, replicas int32) {
	for i := range x.steps {
		if x.steps[i].Name == s.Name {
			x.steps[i].Replicas = replicas
			return
		}
	}
	x.steps = append(x.steps, Step{Name: s.Name, Replicas: replicas})
}

func (s *Set) name() string {
	if s == nil {
		return ""
	}
	return s.Name
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package sizes answers which sizes the ReplicaSets of a held Deployment get next. It is
// a pure function. It must not know about Rollouts, steps or traffic.
package sizes

import (
	"cmp"
	"slices"
)

// Decide decides the next sizes of the ReplicaSets of a held Deployment. The
// native controller goes on scaling a paused Deployment, which shapes the rules:
//
//   - While one set has pods, the native controller keeps it at the full size;
//     a size written here would be undone. So nothing is written then but the
//     first pod of the other revision.
//   - While two have pods, all scaling is ours, to zero included.
//   - Raise before lowering, within surge and unavailable. At the edge where
//     the second set gets its first pod one extra pod is allowed, since the
//     first set cannot be lowered before.
//   - At size 0 the native controller would later give all pods to the newest
//     set, so that no set newer than stable may be left then.
//
// A Deployment that no release drives follows other rules: see alone.
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
		// Going back creates nothing new, and neither does a size that changes meanwhile.
		x.target = min(s.Target, s.Update.size())
	}
	if s.Abort && s.StableEdited {
		// Pods of the update revision stay for those that stable does not get: if it had the
		// only pods, the native controller would give it the others.
		x.target = max(x.target, min(s.Update.size(), s.Replicas-s.Stable.size()))
	}
	return x.plan()
}

// isStableGone reports whether no set of the stable revision is there to go back to, or to
// begin with: the native controller would give all pods to the first set that has one.
func (s *Scaling) isStableGone() bool {
	x := sizing{Scaling: *s}
	return s.Stable == nil && (s.Abort || !s.AllPods && x.total() == 0)
}

// isFrozenAndFits reports whether frozen sizes are those of the workload, whose size may change all
// the same.
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

// available never counts pods that are about to go: right after a write the
// counters are those of the larger size.
func (s *Set) available() int32 {
	if s == nil {
		return 0
	}
	return min(s.Available, s.Replicas)
}

// ready are those that serve, whether or not for long enough yet.
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

// onlyActive returns the only set that has pods, or nil.
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

// stableTarget on the way back is all pods, whatever the update set keeps:
// what is kept for a router's sake must not keep stable from being whole. The last
// pod stays while a Service selects no other revision, though the workload was made
// so small that the step leaves stable none.
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

// removeNotesOfFullUpdate takes the native controller's size annotations off an update set
// that is full, or would be if the size changed back, before another set gets
// pods: a full and available set whose annotation says the full size makes the
// native controller zero all others at once.
func (x *sizing) removeNotesOfFullUpdate() {
	u := x.Update
	if u != nil && u.HasSizeAnnotations && !x.ResumesNatively && (u.Replicas >= x.Replicas || u.Replicas == u.NotedReplicas) && x.stableTarget() > 0 {
		x.write(u, u.Replicas)
	}
}

// raise lets sets grow within the surge: forward the update set first, on the
// way back the stable one.
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

// removalBudget is how many pods that are available, and how many that are ready, may go.
type removalBudget struct{ available, ready int32 }

// take is how many of a set's pods may go: those that serve nobody for free, those
// that do not serve for long enough yet as far as others serve, and the rest as
// far as availability allows. The native controller takes them in this order.
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

// lower takes pods from sets above their target. Sets of neither revision go
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

// keptPods is what the first of these sets keeps for now: the last pod of them stays
// while the only other set is not full, which the native controller would fill. Where
// the stable set is gone, they serve in its place.
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

// makeRoom lets stable pods that do not serve make room for the update set, where
// nothing else can move since pods of neither revision serve in their place.
func (x *sizing) makeRoom() {
	need := x.target - x.Update.size()
	idle := x.Stable.size() - x.Stable.available()
	others := x.total() - x.Update.size() - x.Stable.size()
	if len(x.steps) == 0 && !x.Abort && need > 0 && idle > 0 && others > 0 {
		x.write(x.Stable, x.Stable.Replicas-min(idle, need))
	}
	// Three revisions may be in each other's way, where pods of none of them get
	// ready: one pod too many is better than a standstill.
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

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package sizes

import (
	"cmp"
	"slices"
)

// annotationSizing sizes the ReplicaSets of a Deployment that only an annotation drives. No release
// stores its progress, so the rules are those of a native rolling update with a limit:
//
//   - The target is only approached from below. A smaller target later removes no pods.
//   - When the size changes, or the annotation says paused, pods are distributed among the
//     revisions in their present proportion. The size for which this proportion is valid is in the
//     native controller's size annotations of each ReplicaSet. So these annotations are kept here,
//     while releases remove them.
//   - Nothing else distinguishes old revisions, so the newest of them shrinks first.
type annotationSizing struct{ sizing }

func sizeByAnnotation(s Scaling) Scale {
	x := annotationSizing{sizing{Scaling: s, target: s.Target}}
	active := x.active()
	rule := ""
	switch {
	case len(x.sets()) > 0 && len(active) == 0, len(active) == 1 && active[0].Replicas != s.Replicas:
		return Scale{Rule: "native controller sizes the only set"}
	case s.Frozen || (len(active) > 1 && x.isRescaled(active)):
		rule = "share out"
		x.shareOut(active)
	default:
		rule = "bring update up"
		x.rollForward()
	}
	x.correctNotes(active)
	if len(x.steps) == 0 {
		rule = "sized"
	}
	return Scale{Steps: x.steps, Rule: rule, DesiredAnnotation: s.Replicas, MaxAnnotation: s.Replicas + s.Surge}
}

func (x *annotationSizing) active() []*Set {
	return slices.DeleteFunc(x.sets(), func(s *Set) bool { return s.Replicas == 0 })
}

// correctNotes corrects the size annotations of ReplicaSets that keep their size.
func (x *annotationSizing) correctNotes(active []*Set) {
	for _, set := range active {
		if set.NotedReplicas != x.Replicas && !x.isWritten(set) {
			x.write(set, set.Replicas)
		}
	}
}

func (x *annotationSizing) isWritten(set *Set) bool {
	return slices.ContainsFunc(x.steps, func(s Step) bool { return s.Name == set.Name })
}

// isRescaled reports whether a ReplicaSet was sized for another size of the Deployment.
func (x *annotationSizing) isRescaled(active []*Set) bool {
	return slices.ContainsFunc(active, x.hasStaleNote)
}

func (x *annotationSizing) hasStaleNote(s *Set) bool {
	return s.NotedReplicas != 0 && s.NotedReplicas != x.Replicas
}

// oldSets returns the ReplicaSets of other revisions that have pods, the newest first.
func (x *annotationSizing) oldSets() []*Set {
	sets := slices.DeleteFunc(x.active(), func(s *Set) bool { return s == x.Update })
	slices.SortStableFunc(sets, func(a, b *Set) int { return cmp.Compare(b.Revision, a.Revision) })
	return sets
}

func total(sets []*Set) int32 {
	var n int32
	for _, s := range sets {
		n += s.Replicas
	}
	return n
}

// spareAvailable returns how many available pods may be removed.
func (x *annotationSizing) spareAvailable() int32 {
	spare := x.Unavailable - x.Replicas
	for _, s := range x.sets() {
		spare += s.available()
	}
	return max(spare, 0)
}

// rollForward raises the update ReplicaSet to the target within the surge. If it cannot grow, the
// old ReplicaSets shrink to the rest.
func (x *annotationSizing) rollForward() {
	updated, old := x.Update.size(), x.oldSets()
	room := x.Replicas + x.Surge - x.total()
	if updated == 0 && len(old) == 1 {
		// The native controller reverts any removal from the only ReplicaSet.
		room = max(room, 1)
	}
	if grow := min(room, x.target-updated); grow > 0 {
		if x.Update == nil {
			x.steps = append(x.steps, Step{Replicas: grow})
			return
		}
		x.write(x.Update, updated+grow)
		return
	}
	if len(old) == 0 || x.onlyActive() != nil {
		return
	}
	over := total(old) - (x.Replicas - max(x.target, updated))
	if updated == 0 {
		// Remove only enough pods for the first new one. Otherwise a single ReplicaSet might remain,
		// and the native controller would fill it again.
		over = min(over, max(1-room, x.total()-x.Replicas, 0))
	}
	if over < 0 {
		biggest := slices.MaxFunc(old, func(a, b *Set) int {
			return cmp.Or(cmp.Compare(a.Replicas, b.Replicas), cmp.Compare(b.Revision, a.Revision))
		})
		x.write(biggest, biggest.Replicas-over)
		return
	}
	x.lowerOld(old, over)
}

// lowerOld removes unavailable pods first, then others as far as availability allows.
func (x *annotationSizing) lowerOld(old []*Set, over int32) {
	left := map[string]int32{}
	for _, s := range slices.Backward(old) {
		idle := min(over, s.Replicas-s.available())
		left[s.Name] = s.Replicas - idle
		over -= idle
	}
	spare := x.spareAvailable()
	for _, s := range old {
		serving := min(over, spare, s.available())
		left[s.Name] -= serving
		over, spare = over-serving, spare-serving
		if left[s.Name] != s.Replicas {
			x.write(s, left[s.Name])
		}
	}
}

// share is the desired size of one ReplicaSet.
type share struct {
	*Set
	want int32
}

// serving returns how many available pods remain at the desired size.
func (s *share) serving() int32 { return min(s.available(), s.want) }

// shareOut distributes the Deployment's size among the ReplicaSets with pods.
func (x *annotationSizing) shareOut(active []*Set) {
	shares := make([]*share, 0, len(active))
	for _, s := range active {
		shares = append(shares, &share{s, s.Replicas})
	}
	more := x.Replicas - total(active)
	older := func(a, b *share) int { return cmp.Compare(a.Revision, b.Revision) }
	if more < 0 {
		slices.SortStableFunc(shares, older)
		more += x.takeIdle(shares, -more)
	}
	slices.SortStableFunc(shares, func(a, b *share) int {
		newer := -older(a, b)
		if more < 0 {
			newer = older(a, b)
		}
		return cmp.Or(cmp.Compare(b.Replicas, a.Replicas), newer)
	})
	more = x.proportionally(shares, more)
	x.distributeRest(shares, more)
	x.keepServing(shares)
	x.keepOldPod(shares)
	for _, s := range shares {
		if s.want != s.Replicas {
			x.write(s.Set, s.want)
		}
	}
}

// takeIdle removes at most the given number of unavailable pods of old ReplicaSets.
func (x *annotationSizing) takeIdle(shares []*share, most int32) (taken int32) {
	for _, s := range shares {
		if s.Set != x.Update {
			idle := min(most-taken, s.want-s.serving())
			s.want -= idle
			taken += idle
		}
	}
	return taken
}

// proportionally scales ReplicaSets that were sized for another size. It returns the pods that
// remain to be added or removed because of rounding.
func (x *annotationSizing) proportionally(shares []*share, more int32) int32 {
	for _, s := range shares {
		if !x.hasStaleNote(s.Set) {
			continue
		}
		noted := int64(s.NotedReplicas) // products of sizes go beyond 32 bits
		part := int32((2*int64(s.want)*int64(x.Replicas)+noted)/(2*noted)) - s.want
		if more > 0 {
			part = min(max(part, 0), more)
		} else {
			part = max(min(part, 0), more)
		}
		s.want += part
		more -= part
	}
	return more
}

// distributeRest adds the remaining pods to the first ReplicaSet, or removes them from the first and
// the following ones. ReplicaSets that are not sized for the new size yet come first.
func (x *annotationSizing) distributeRest(shares []*share, more int32) {
	for _, stale := range []bool{true, false} {
		for _, s := range shares {
			if x.hasStaleNote(s.Set) == stale {
				part := max(more, -s.want)
				s.want += part
				more -= part
			}
		}
	}
}

// keepServing gives available pods back if too few would remain, those of old ReplicaSets first. It
// removes unavailable pods instead.
func (x *annotationSizing) keepServing(shares []*share) {
	short := x.Replicas - x.Unavailable - serving(shares)
	var given int32
	for _, update := range []bool{false, true} {
		for _, s := range shares {
			if back := min(short-given, s.available()-s.want); (s.Set == x.Update) == update && back > 0 {
				s.want += back
				given += back
			}
		}
	}
	for _, s := range shares {
		if idle := min(given, s.want-s.serving()); idle > 0 {
			s.want -= idle
			given -= idle
		}
	}
}

// keepOldPod prevents that rounding gives all pods to a revision whose target is lower, unless only
// its pods are available.
func (x *annotationSizing) keepOldPod(shares []*share) {
	if x.target >= x.Replicas || len(shares) < 2 {
		return
	}
	i := slices.IndexFunc(shares, func(s *share) bool { return s.Set == x.Update })
	j := slices.IndexFunc(shares, func(s *share) bool { return s.Set != x.Update })
	if i < 0 || shares[i].want < x.Replicas {
		return
	}
	update, old := shares[i], shares[j]
	move := update.want - (x.Replicas - 1)
	was := serving(shares)
	update.want, old.want = update.want-move, old.want+move
	if is := serving(shares); is < was && is < x.Replicas-x.Unavailable {
		update.want, old.want = update.want+move, old.want-move
	}
}

func serving(shares []*share) int32 {
	var n int32
	for _, s := range shares {
		n += s.serving()
	}
	return n
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package sizes

// sizeZero brings a Deployment of size 0 to rest. Later the native controller
// gives all pods to the set of the live template, or else to the youngest set;
// unless the release is at all pods, neither may exist then. They go first, with
// their pods: if they only lost their pods, the Deployment could be scaled up
// again before they are gone.
func sizeZero(s Scaling) Scale {
	x := sizing{Scaling: s}
	var active []*Set
	for _, set := range x.sets() {
		switch {
		case s.wouldReplaceStable(set):
			x.steps = append(x.steps, Step{Name: set.Name, Delete: true})
		case set.Replicas > 0:
			active = append(active, set)
		}
	}
	// One that is left is the native controller's to size.
	if len(active) > 1 && !s.OwnerStrategyActive {
		for _, set := range active {
			x.write(set, 0)
		}
	}
	rule := "at rest at size 0"
	if len(x.steps) > 0 {
		rule = "bring to rest at size 0"
	}
	return Scale{Steps: x.steps, Rule: rule}
}

// wouldReplaceStable reports whether at size 0 the native controller would prefer the
// set to the stable one, though it must not. A stable set that was edited gets no pods.
func (s *Scaling) wouldReplaceStable(set *Set) bool {
	if s.Stable == nil || s.StableEdited || (s.AllPods && !s.Abort) || set.Name == s.Stable.Name {
		return false
	}
	return set.Name == s.Update.name() || !set.Created.Before(s.Stable.Created)
}

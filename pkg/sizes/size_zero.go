// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package sizes

// sizeZero decides the sizes of a Deployment of size 0. When the Deployment grows again, the native
// controller gives all pods to the ReplicaSet of the live template, or else to the youngest. Unless
// the release has reached all pods, both are wrong. So these ReplicaSets are deleted with their
// pods: if they were only scaled to 0, the Deployment could be scaled up again before their pods are
// gone.
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
	// If only one remains, the native controller sizes it.
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

// wouldReplaceStable reports whether at size 0 the native controller would prefer this ReplicaSet to
// stable. An edited stable ReplicaSet must not get pods, so nothing is deleted for it.
func (s *Scaling) wouldReplaceStable(set *Set) bool {
	if s.Stable == nil || s.StableEdited || (s.AllPods && !s.Abort) || set.Name == s.Stable.Name {
		return false
	}
	return set.Name == s.Update.name() || !set.Created.Before(s.Stable.Created)
}

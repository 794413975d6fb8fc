// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package sizes_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/sizes"
)

// TestSizes checks single decisions. TestSizesWalk checks the way to a target.
func TestSizes(t *testing.T) {
	t.Parallel()
	young := set("young", 0, 0)
	young.Created = time.Unix(60, 0)
	old := set("old", 0, 0)
	old.Created = time.Unix(-60, 0)
	tests := map[string]struct {
		in   sizes.Scaling
		want sizes.Scale
	}{
		"the update set is made when it is needed": {
			sizes.Scaling{Replicas: 4, Surge: 1, Target: 1, Stable: set("s", 4, 4)},
			sizes.Scale{Steps: []sizes.Step{{Replicas: 1}}, Rule: "bring update up"},
		},
		"the last pod stays that a Service selects, though the size leaves stable none": {
			sizes.Scaling{Replicas: 1, Surge: 1, Target: 1, PinnedSet: "s", Update: set("u", 1, 1), Stable: set("s", 4, 4)},
			sizes.Scale{Steps: []sizes.Step{{Name: "s", Replicas: 1}}, Rule: "bring update up"},
		},
		"until it selects all": {
			sizes.Scaling{Replicas: 1, Surge: 1, Target: 1, Update: set("u", 1, 1), Stable: set("s", 1, 1)},
			sizes.Scale{Steps: []sizes.Step{{Name: "s"}}, Rule: "bring update up"},
		},
		"pods that are not ready are taken for free, stable ones not for them": {
			sizes.Scaling{Replicas: 4, Surge: 1, Target: 2, Update: set("u", 2, 0), Stable: set("s", 4, 3)},
			sizes.Scale{Steps: []sizes.Step{{Name: "s", Replicas: 3}}, Rule: "bring update up"},
		},
		"ready pods serve, though not yet for long enough": {
			sizes.Scaling{Replicas: 4, Surge: 1, Target: 2, Update: set("u", 1, 0), Stable: setWithReady("s", 4, 4, 2)},
			sizes.Scale{Rule: "sized"},
		},
		"others may serve in their place": {
			sizes.Scaling{Replicas: 4, Surge: 1, Target: 3, Update: setWithReady("u", 2, 2, 0), Stable: setWithReady("s", 3, 3, 1)},
			sizes.Scale{Steps: []sizes.Step{{Name: "s", Replicas: 2}}, Rule: "bring update up"},
		},
		"a set whose last pods have not gone yet is not raised again, whose counters they would be in": {
			sizes.Scaling{Replicas: 6, Surge: 2, Unavailable: 1, Abort: true, Update: set("u", 2, 2), Stable: shrinkingSet("s", 4)},
			sizes.Scale{Steps: []sizes.Step{{Name: "u", Replicas: 1}}, Rule: "bring stable back"},
		},
		"nor is the update set": {
			sizes.Scaling{Replicas: 6, Surge: 2, Unavailable: 1, Target: 4, Update: shrinkingSet("u", 1), Stable: set("s", 6, 6)},
			sizes.Scale{Steps: []sizes.Step{{Name: "s", Replicas: 4}}, Rule: "bring update up"},
		},
		"nothing is taken below the floor": {
			sizes.Scaling{Replicas: 4, Surge: 1, Target: 2, Update: set("u", 2, 1), Stable: set("s", 3, 3)},
			sizes.Scale{Rule: "sized"},
		},
		"a full update set loses the notes on its size before stable gets pods": {
			sizes.Scaling{Replicas: 4, Surge: 1, Abort: true, Update: setWithAnnotations("u", 4), Stable: set("s", 0, 0)},
			sizes.Scale{Steps: []sizes.Step{{Name: "u", Replicas: 4}, {Name: "s", Replicas: 1}}, Rule: "bring stable back"},
		},
		"the first pods of the update set are not lowered into": {
			sizes.Scaling{Replicas: 4, Surge: 4, Unavailable: 4, Target: 4, AllPods: true, Stable: set("s", 4, 4)},
			sizes.Scale{Steps: []sizes.Step{{Replicas: 4}}, Rule: "bring update up"},
		},
		"stable pods that do not serve make room where nothing else moves": {
			sizes.Scaling{
				Replicas: 4, Surge: 1, Target: 2, Update: set("u", 1, 1), Stable: set("s", 2, 0), Others: []sizes.Set{*set("o", 2, 2)},
			},
			sizes.Scale{Steps: []sizes.Step{{Name: "s", Replicas: 1}}, Rule: "bring update up"},
		},
		"an abort makes no set": {
			sizes.Scaling{Replicas: 4, Surge: 1, Target: 1, Abort: true, Stable: set("s", 4, 4)},
			sizes.Scale{Rule: "sized"},
		},
		"size 0: the update set goes with its pods, and the native controller sizes stable": {
			sizes.Scaling{Target: 1, Update: set("u", 1, 1), Stable: set("s", 3, 3)},
			sizes.Scale{Steps: []sizes.Step{{Name: "u", Delete: true}}, Rule: "bring to rest at size 0"},
		},
		"size 0: two that stay are brought down": {
			sizes.Scaling{AllPods: true, Update: set("u", 3, 3), Stable: set("s", 1, 1)},
			sizes.Scale{Steps: []sizes.Step{{Name: "u"}, {Name: "s"}}, Rule: "bring to rest at size 0"},
		},
		"size 0: the update set goes when it is empty": {
			sizes.Scaling{Update: set("u", 0, 0), Stable: set("s", 0, 0)},
			sizes.Scale{Steps: []sizes.Step{{Name: "u", Delete: true}}, Rule: "bring to rest at size 0"},
		},
		"size 0: so do empty sets that are younger than stable": {
			sizes.Scaling{Abort: true, Stable: set("s", 0, 0), Others: []sizes.Set{*young, *old}},
			sizes.Scale{Steps: []sizes.Step{{Name: "young", Delete: true}}, Rule: "bring to rest at size 0"},
		},
		"size 0: a full release keeps its set": {
			sizes.Scaling{AllPods: true, Update: set("u", 0, 0), Stable: set("s", 0, 0)},
			sizes.Scale{Rule: "at rest at size 0"},
		},
		"size 0: an aborted full release does not": {
			sizes.Scaling{AllPods: true, Abort: true, Update: set("u", 0, 0), Stable: set("s", 0, 0)},
			sizes.Scale{Steps: []sizes.Step{{Name: "u", Delete: true}}, Rule: "bring to rest at size 0"},
		},
		"size 0: the native controller sizes, we only guard": {
			sizes.Scaling{OwnerStrategyActive: true, Update: set("u", 0, 0), Stable: set("s", 3, 3)},
			sizes.Scale{Steps: []sizes.Step{{Name: "u", Delete: true}}, Rule: "bring to rest at size 0"},
		},
		"an edited stable set gets no pods that come": {
			sizes.Scaling{Replicas: 8, Surge: 2, Target: 4, StableEdited: true, Update: set("u", 4, 4), Stable: set("s", 2, 2)},
			sizes.Scale{Rule: "sized"},
		},
		"and gives those that go": {
			sizes.Scaling{Replicas: 4, Surge: 1, Target: 3, StableEdited: true, Update: set("u", 3, 3), Stable: set("s", 2, 2)},
			sizes.Scale{Steps: []sizes.Step{{Name: "s", Replicas: 1}}, Rule: "bring update up"},
		},
		"an abort keeps update pods in the place of those that an edited stable set does not get": {
			sizes.Scaling{Replicas: 6, Surge: 2, Unavailable: 1, Abort: true, StableEdited: true, Update: set("u", 2, 2), Stable: set("s", 5, 5)},
			sizes.Scale{Steps: []sizes.Step{{Name: "u", Replicas: 1}}, Rule: "bring stable back"},
		},
		"size 0: for an edited stable set nothing is deleted": {
			sizes.Scaling{StableEdited: true, Update: set("u", 0, 0), Stable: set("s", 0, 0)},
			sizes.Scale{Rule: "at rest at size 0"},
		},
		"size 0: without stable nothing is deleted": {
			sizes.Scaling{Update: set("u", 0, 0)},
			sizes.Scale{Rule: "at rest at size 0"},
		},
		"size 0 comes before a freeze": {
			sizes.Scaling{Frozen: true, Update: set("u", 1, 1), Stable: set("s", 3, 3)},
			sizes.Scale{Steps: []sizes.Step{{Name: "u", Delete: true}}, Rule: "bring to rest at size 0"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, sizes.Decide(test.in)); diff != "" {
				t.Errorf("scale (-want +got):\n%s", diff)
			}
		})
	}
}

// setWithReady returns a ReplicaSet with ready pods of which only some are available.
func setWithReady(name string, replicas, ready, available int32) *sizes.Set {
	s := set(name, replicas, available)
	s.Ready = ready
	return s
}

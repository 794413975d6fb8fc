// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strings"
	"testing"
)

// TestFailedPodViolatesNoInvariant checks that a pod that fails violates no invariant, although enough
// other pods are ready. A pod that a controller deletes does.
func TestFailedPodViolatesNoInvariant(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"failed": true, "deleted": false} {
		s := newStory(t)
		s.run(strings.Split(`deployment web replicas=2 image=v1 unavailable=1
service web
ingress web
rollout web traffic grace=3s
  step 20% traffic=20%
  step 100%
settle
update web image=v2
settle
promote web
pass rollout web
advance 3s
pass rollout web`, "\n"))
		if len(s.w.check.promises.keptUntil) == 0 {
			t.Fatalf("%s: routers were not told to forget the new version:\n%s", name, s.t.out.String())
		}
		s.w.check.excusesPodFailures = fails
		s.fail(command{words: []string{"fail", "v2"}})
		if s.w.check.checkBetweenMoves(); (len(s.w.check.broken) > 0) == fails {
			t.Errorf("%s: broken %v", name, s.w.check.broken)
		}
	}
}

// TestRecreatedReplicaSetGetsRequests deletes a ReplicaSet that is created again with another hash label. A
// TrafficRouting names no revision, so its requests go to the new pods.
func TestRecreatedReplicaSetGetsRequests(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.run(strings.Split(`deployment web replicas=4 image=v1
service web
ingress web
routing web
rollout web routing=web
  step 20%
  step 100%
settle
update web image=v1 id=two
settle
lose v1
settle`, "\n"))
	targets := s.w.check.listRouteTargets()
	if len(targets) != 1 || targets[0].able != 4 {
		t.Errorf("requests go to %+v, want 4 pods of one revision", targets)
	}
}

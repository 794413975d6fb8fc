// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
	"github.com/weir-rollouts/weir/test/kruise"
)

// TestKruise tells stories of CloneSets, Advanced StatefulSets and Advanced
// DaemonSets, beginning where the cluster does not serve them yet. Kruise is played
// by test/kruise.
func TestKruise(t *testing.T) {
	t.Parallel()
	notInstalled(t)
	stories := map[string]func(*testing.T){
		"to the end":   clonesToTheEnd,
		"in place":     clonesInPlace,
		"third":        clonesThird,
		"back":         clonesBack,
		"aborted":      clonesAborted,
		"complete":     clonesAbortedWhenComplete,
		"batches":      clonesBackInBatches,
		"named":        clonesBackNamed,
		"name alone":   clonesNameAlone,
		"renamed":      clonesRenamed,
		"scaled":       clonesScaled,
		"nothing":      clonesDownToNothing,
		"deleted":      clonesDeleted,
		"disabled":     clonesDisabled,
		"from outside": clonesFromOutside,
		"forgotten":    clonesForgotten,

		"green to the end": greenToTheEnd,
		"green back":       greenBack,
		"green third":      greenThird,
		"green aborted":    greenAborted,
		"green scaled":     greenScaled,
		"green deleted":    greenLeft((*cloned).leaves),
		"green disabled":   greenLeft((*cloned).disables),

		"ordered to the end": advancedToTheEnd,
		"ordered in place":   advancedInPlace,
		"ordered paused":     advancedPaused,
		"ordered back":       advancedBack,
		"ordered deleted":    advancedDeleted,
		"ordered, any group": orderedOfAnyGroup,

		"on nodes to the end":  agentsToTheEnd,
		"on nodes in place":    agentsInPlace,
		"on nodes third":       agentsThird,
		"on nodes back":        agentsBack,
		"on nodes aborted":     agentsAborted,
		"on other nodes":       agentsOnOtherNodes,
		"on nodes deleted":     agentsDeleted,
		"on nodes left out":    agentsChoosy,
		"on nodes by an owner": agentsByHand,
	}
	for _, name := range some(stories, "to the end", "aborted", "scaled", "named", "name alone", "forgotten", "green third", "green aborted", "ordered in place", "on nodes aborted") {
		t.Run(name, stories[name])
	}
}

// A Rollout whose kind is not served says so when it is made and afterwards, can
// be deleted, and begins its work when the kind is served, without a restart. What
// has served a kind once is not asked to forget it.
func notInstalled(t *testing.T) {
	s := &cloned{app: space(t)}
	s.plan = plan{replicas: 5, unavailable: 1, steps: []v1beta1.Step{manual("20%"), manual("100%")}, change: ofCloneSet}
	s.create(s.newRollout())
	if served := func(ctx context.Context) error { return here.client.List(ctx, cloneSets()) }; served(t.Context()) != nil {
		missing := s.says("the cluster does not serve CloneSet.apps.kruise.io", "install what brings it")
		s.until("the Rollout says what is missing", missing)
		s.leaves()
		s.create(s.newRollout())
		s.until("the Rollout says what is missing", missing)
		installKruise(t)
		s.until("CloneSets are served", served)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(stop)
	if err := kruise.Start(ctx, here.cluster.Config()); err != nil {
		t.Fatal(err)
	}
	s.until("the Rollout waits for its workload", s.says("Workload Not Found"))
	s.make(nil)
	s.until("the Rollout is Healthy", s.healthy)
}

func installKruise(t *testing.T) {
	t.Helper()
	definitions, err := cluster.Decode(bytes.NewReader(kruise.Definitions))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range definitions {
		if err := here.client.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}

// Case 47: a step with traffic, one without, to the end; then it grows. Pods that
// are labelled keep the name that Kruise gave their revision.
func clonesToTheEnd(t *testing.T) {
	t.Parallel()
	s := startCloned(t, true, nil, nil, with(manual("20%"), "20%"), manual("60%")).called("one")
	s.ships("v2")
	s.step(1, 1, "80%", "v2")
	s.sees(s.weight("20"))
	s.sees(s.serves(name, versions{"v1": 4}))
	s.sees(s.serves(name+"-canary", versions{"v2": 1}))
	s.sees(s.labelled("one", map[string]int{"1": 1}))
	s.promote(1)
	s.step(2, 3, "40%", "v2")
	s.sees(s.weight(""))
	s.sees(s.serves(name, versions{"v1": 2, "v2": 3}))
	s.sees(s.labelled("one", map[string]int{"1": 1, "2": 2}))
	s.sees(s.whole)
	s.promote(2)
	s.gives("v2")
	s.change(`{"spec":{"replicas":6}}`)
	s.until("it grows", s.runsPods(versions{"v2": 6}))
	s.sees(s.healthy)
}

// Case 51: pods are updated in place, and are the same pods in the end.
func clonesInPlace(t *testing.T) {
	t.Parallel()
	s := startCloned(t, false, map[string]any{"type": "InPlaceOnly", "maxUnavailable": int64(1)}, nil, manual("20%"), manual("60%"), manual("100%")).called("one")
	was := s.uids()
	s.ships("v2")
	s.step(1, 1, "80%", "v2")
	s.sees(s.labelled("one", map[string]int{"1": 1}))
	s.promote(1)
	s.step(2, 3, "40%", "v2")
	s.abort()
	s.sees(s.runsPods(versions{"v1": 5}))
	s.stands("100%", "v2")
	s.post(here.admin, "retry", "", http.StatusCreated)
	s.step(1, 1, "80%", "v2")
	s.promoteAll()
	s.gives("v2")
	s.same("the pods", was, s.uids())
}

// Case 49: a third version begins at step 1, and no more of it come than that says.
func clonesThird(t *testing.T) {
	t.Parallel()
	s := startCloned(t, true, nil, nil, with(manual("20%"), "20%"), manual("40%"), manual("100%"))
	s.ships("v2")
	s.step(1, 1, "80%", "v2")
	s.promote(1)
	s.step(2, 2, "60%", "v2")
	s.guard.atMost("v3", 1)
	s.ships("v3")
	s.step(1, 1, "80%", "v3")
	s.sees(s.weight("20"))
	s.guard.atMost("v3", 6)
	s.promoteAll()
	s.gives("v3")
}

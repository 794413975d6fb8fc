// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/controller/rollout"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestVerbsStoreAllConsequences checks that a verb stores all its consequences, so that the next
// pass stores nothing. The exceptions are consequences that depend on the workload or the network.
func TestVerbsStoreAllConsequences(t *testing.T) {
	t.Parallel()
	const pause, resume, promote = "pause web verb", "resume web verb", "promote web"
	styles := map[string][]string{
		"partition":   {"deployment web replicas=10 image=v1", "rollout web"},
		"blue-green":  {"deployment web replicas=10 image=v1", "rollout web bluegreen"},
		"statefulset": {"statefulset web replicas=10 image=v1", "rollout web"},
		"traffic":     {"deployment web replicas=10 image=v1", "service web", "ingress web", "rollout web traffic"},
	}
	for name, tt := range map[string]struct {
		verbs []string
		// stores are the styles in which the next pass stores something.
		stores map[string]bool
	}{
		"pause":                      {verbs: []string{pause}},
		"resume":                     {verbs: []string{pause, "settle", "advance 5s", resume}},
		"pause while pods start":     {verbs: []string{promote, pause}},
		"resume while pods start":    {verbs: []string{promote, pause, resume}, stores: map[string]bool{"traffic": true}},
		"promote":                    {verbs: []string{promote}, stores: map[string]bool{"traffic": true}},
		"promote a previous step":    {verbs: []string{promote, "settle", "advance 30s", "settle", promote}, stores: map[string]bool{"traffic": true}},
		"promote in full":            {verbs: []string{"promote web full"}, stores: map[string]bool{"traffic": true}},
		"abort, bound to a template": {verbs: []string{"abort web"}, stores: map[string]bool{"partition": true, "blue-green": true, "statefulset": true, "traffic": true}},
	} {
		for style, begin := range styles {
			t.Run(name+"/"+style, func(t *testing.T) {
				t.Parallel()
				s := newStory(t)
				s.run(append(slices.Clip(begin), "  step 20%", "  step 50%", "  step 80%", "  step 100%", "settle",
					"update web image=v2", "settle", "advance 30s", "settle"))
				s.run(tt.verbs)
				o, err := rollout.Observe(quietContext, cachedCluster{s.w}, s.w.now, rollout.Options{}, types.NamespacedName{Name: "web"})
				if err != nil {
					t.Fatal(err)
				}
				before, after := o.Rollout.Status, planner.Decide(o.Facts).Status
				if tt.stores[style] == equal.DeepEqual(before, after) {
					t.Errorf("stores %t, want %t (-stored +next):\n%s", !tt.stores[style], tt.stores[style], cmp.Diff(before, after))
				}
			})
		}
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
)

// Case 66: steps without traffic, to the end; pods say which batch brought them.
func statefulLabelled(t *testing.T) {
	t.Parallel()
	s := startStateful(t, false, nil, manual("20%"), manual("40%"), manual("60%"), manual("80%"), manual("100%")).serve()
	s.change(fmt.Sprintf(`{"metadata":{"labels":{"rollouts.kruise.io/rollout-id":"one"}},
		"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, image("v2")))
	s.was.Labels["rollouts.kruise.io/rollout-id"] = "one"
	s.step(1, 1, "v2")
	s.sees(s.labelled("one", map[string]int{"1": 1}))
	s.promote(1)
	s.step(2, 2, "v2")
	s.sees(s.labelled("one", map[string]int{"1": 1, "2": 1}))
	s.promoteAll()
	s.gives("v2")
	s.sees(s.labelled("one", map[string]int{"1": 1, "2": 1, "3": 1, "4": 1, "5": 1}))
}

// A jump ahead skips steps. One back replaces no pod: those that are new stay.
func statefulJumps(t *testing.T) {
	t.Parallel()
	s := startStateful(t, false, nil, manual("20%"), manual("40%"), manual("60%"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.post(here.admin, "jump", `{"step":3}`, http.StatusCreated)
	s.step(3, 3, "v2")
	s.post(here.admin, "jump", `{"step":1}`, http.StatusCreated)
	s.until("step 1 waits", s.waitsAt(1))
	s.sees(s.runsPods(versions{"v1": 2, "v2": 3}))
	s.promote(1)
	s.until("step 2 waits", s.waitsAt(2))
	s.sees(s.runsPods(versions{"v1": 2, "v2": 3}))
	s.promoteAll()
	s.gives("v2")
}

// A size that changes in the middle of a release. What grows is new, one pod more
// than the share where its controller is faster than the new partition; what shrinks
// loses new pods first, which the step makes anew.
func statefulSized(t *testing.T) {
	t.Parallel()
	s := startStateful(t, false, nil, manual("40%"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 2, "v2")
	s.guard.atMost("v2", 5)
	s.sizes(8)
	share, faster := s.runsPods(versions{"v1": 4, "v2": 4}), s.runsPods(versions{"v1": 3, "v2": 5})
	s.until("new pods are of the new version", func(ctx context.Context) error {
		err := share(ctx)
		if err != nil && faster(ctx) == nil {
			return nil
		}
		return err
	})
	s.sees(s.waitsAt(1))
	s.sizes(5)
	s.until("the share of the step is new", s.runsPods(versions{"v1": 3, "v2": 2}))
	s.sees(s.waitsAt(1))
	s.promoteAll()
	s.gives("v2")
}

// Disabling goes on natively, and enabling brings the next release into steps.
func statefulDisabled(t *testing.T) {
	t.Parallel()
	s := startStateful(t, false, nil, manual("20%"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.edit(`{"spec":{"disabled":true}}`)
	s.until("all pods run v2", s.runsPods(versions{"v2": 5}))
	s.stands(0, "v2")
	s.edit(`{"spec":{"disabled":false}}`)
	s.until("the Rollout is Healthy", s.healthy)
	s.guard.atMost("v3", 1)
	s.ships("v3")
	s.until("step 1 waits", s.waitsAt(1))
	s.sees(s.runsPods(versions{"v2": 4, "v3": 1}))
}

// A hold that nobody is left to end is given back.
func statefulForgotten(t *testing.T) {
	t.Parallel()
	s := startStateful(t, false, nil, manual("20%"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	for _, body := range []string{`{"spec":{"disabled":true}}`, `{"metadata":{"finalizers":null}}`} {
		s.edit(body)
	}
	s.until("all pods run v2", s.runsPods(versions{"v2": 5}))
	s.until("the Rollout is Disabled", s.disabled)
	s.change(`{"metadata":{"annotations":{"rollouts.kruise.io/in-progressing":"{\"rolloutName\":\"none\"}"}},"spec":{"updateStrategy":{"rollingUpdate":{"partition":32767}}}}`)
	s.until("it says so", s.told("WorkloadGivenBack", 1))
	s.until("nobody holds it", func(context.Context) error {
		set := s.set()
		if *set.Spec.UpdateStrategy.RollingUpdate.Partition != 0 || len(set.Annotations) > 0 {
			return errors.New("it is held")
		}
		return nil
	})
}

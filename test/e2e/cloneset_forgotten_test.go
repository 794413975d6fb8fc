// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/weir-rollouts/weir/test/kruise"
)

// heldByHand is another version and what holds it, as if of a Rollout that has gone.
func heldByHand(version, by string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{"rollouts.kruise.io/in-progressing":"{\"rolloutName\":\"none\"}"}},"spec":{"updateStrategy":%s,"template":%s}}`,
		by, templateWith(version))
}

// A hold of a kind of Kruise that nobody is left to end is given back, also where
// no Rollout has ever named one of its kind.
func clonesForgotten(t *testing.T) {
	t.Parallel()
	for by, s := range map[string]*cloned{
		`{"partition":"100%"}`:                  {app: space(t)},
		`{"rollingUpdate":{"partition":32767}}`: {app: space(t), kind: kruise.StatefulSetKind},
	} {
		s.make(map[string]any{})
		s.change(heldByHand("v2", by))
		s.forgotten("v2")
	}
	s := startAgents(t, 3, false, nil, manual("100%")).serve()
	s.leaves()
	s.change(heldByHand("v2", `{"rollingUpdate":{"partition":32767}}`))
	s.until("it says so", s.told("WorkloadGivenBack", 1))
	s.isAs("v2")
}

// forgotten wants the version that was held by hand to be given back.
func (s *cloned) forgotten(version string) {
	s.t.Helper()
	s.until("it says so", s.told("WorkloadGivenBack", 1))
	s.until("all pods run "+version, s.runsPods(versions{version: 5}))
	s.until("nothing is left of that", func(context.Context) error {
		if left := s.set().GetAnnotations(); len(left) > 0 {
			return fmt.Errorf("annotations %v are left", left)
		}
		return nil
	})
}

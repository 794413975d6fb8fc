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

// manualHold is a patch with another version and the annotations of a hold, as if by a deleted
// Rollout.
func manualHold(version, by string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{"rollouts.kruise.io/in-progressing":"{\"rolloutName\":\"none\"}"}},"spec":{"updateStrategy":%s,"template":%s}}`,
		by, templateWith(version))
}

// cloneSetOrphanedHold checks that a hold without a Rollout is removed, also if no Rollout has ever
// referenced an object of this kind.
func cloneSetOrphanedHold(t *testing.T) {
	t.Parallel()
	for by, s := range map[string]*cloneSetApp{
		`{"partition":"100%"}`:                  {app: newNamespace(t)},
		`{"rollingUpdate":{"partition":32767}}`: {app: newNamespace(t), kind: kruise.StatefulSetKind},
	} {
		s.createCloneSet(map[string]any{})
		s.patchCloneSet(manualHold("v2", by))
		s.checkOrphanedHoldRestored("v2")
	}
	s := startAdvancedDaemonSetApp(t, 3, false, nil, manualStep("100%")).createRollout()
	s.deleteRollout()
	s.patchCloneSet(manualHold("v2", `{"rollingUpdate":{"partition":32767}}`))
	s.eventually("an event reports it", s.hasEvent("WorkloadGivenBack", 1))
	s.checkRestoredAt("v2")
}

// checkOrphanedHoldRestored holds a version manually, and waits until the workload is restored.
func (s *cloneSetApp) checkOrphanedHoldRestored(version string) {
	s.t.Helper()
	s.eventually("an event reports it", s.hasEvent("WorkloadGivenBack", 1))
	s.eventually("all pods run "+version, s.runsPods(versions{version: 5}))
	s.eventually("no annotation of the hold is left", func(context.Context) error {
		if left := s.getCloneSet().GetAnnotations(); len(left) > 0 {
			return fmt.Errorf("annotations %v are left", left)
		}
		return nil
	})
}

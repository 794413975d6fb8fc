// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
)

// The handler reports changes of the release records, regardless of the writer, and no other changes.
func TestOnRollout(t *testing.T) {
	t.Parallel()
	var told []int
	h := cluster.ObserveReleases(func(before, after *rollouts.Rollout) {
		told = append(told, len(before.Status.Releases), len(after.Status.Releases))
	})
	old, talks, begins := &v1beta1.Rollout{}, &v1beta1.Rollout{}, &v1beta1.Rollout{}
	talks.Status.Message = "on it"
	begins.Status.Releases = []v1beta1.ReleaseRecord{{Number: 1}}
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: old, ObjectNew: talks}, nil)
	h.Update(t.Context(), event.UpdateEvent{ObjectOld: talks, ObjectNew: begins}, nil)
	if len(told) != 2 || told[0] != 0 || told[1] != 1 {
		t.Errorf("told %v, want the change from no release to one", told)
	}
}

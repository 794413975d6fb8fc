// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// A history that was filed a moment ago is not read: here somebody has deleted it,
// and that is seen a minute later.
func TestHistoryIsKnownForAWhile(t *testing.T) {
	t.Parallel()
	s, clock := newServer(t), clocktesting.NewFakeClock(clock().Now())
	server := cluster.Server{Reader: cluster.Reader{Client: s, Live: s, WriteTracker: cluster.NewWriteTracker(clock)}}
	start := metav1.NewTime(clock.Now())
	release := rollouts.ReleaseRecord{Number: 1, StartTime: start}
	ro := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid"}}
	ro.Status.Releases = []rollouts.ReleaseRecord{release}
	made, err := server.File(t.Context(), cluster.Part{Rollout: ro}, planner.Filing{Release: release})
	if err != nil || !made {
		t.Fatalf("filing: made %t, %v", made, err)
	}
	if err := s.DeleteAllOf(t.Context(), &v1alpha1.RolloutHistory{}); err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, later := range []time.Duration{0, 59 * time.Second, time.Second} {
		clock.SetTime(clock.Now().Add(later))
		histories, err := server.Histories(t.Context(), ro)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, len(histories))
	}
	if diff := cmp.Diff([]int{1, 1, 0}, got); diff != "" {
		t.Errorf("histories at once, after 59 s and after a minute (-want +got):\n%s", diff)
	}
}

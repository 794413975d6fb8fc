// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// A history that was just stored is not read again. Here somebody has deleted it, and the passes observe that a minute
// later.
func TestHistoryIsKnownForAWhile(t *testing.T) {
	t.Parallel()
	s, clock := newServer(t), clocktesting.NewFakeClock(newFakeClock().Now())
	server := cluster.Server{Reader: cluster.Reader{Client: s, Live: s, WriteTracker: cluster.NewWriteTracker(clock)}}
	start := metav1.NewTime(clock.Now())
	release := rollouts.ReleaseRecord{Number: 1, StartTime: start}
	ro := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid"}}
	ro.Status.Releases = []rollouts.ReleaseRecord{release}
	if made, err := server.WriteHistory(t.Context(), cluster.ReleaseObjects{Rollout: ro}, planner.HistoryEntry{Release: release}); err != nil || !made {
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

// The status of a Rollout has only the latest decisions of a release. The history has all of them, and none of another
// release.
func TestHistoryHasEarlierDecisions(t *testing.T) {
	t.Parallel()
	wire := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "busy", UID: "uid"}}
	for id := range int64(50) {
		wire.Status.Decisions = append(wire.Status.Decisions, v1beta1.Decision{ID: id + 1, Verb: "pause", User: "alice"})
	}
	s, status := newServer(t), wire.Status
	if err := s.Create(t.Context(), wire); err != nil {
		t.Fatal(err)
	}
	wire.Status = status
	if err := s.Status().Update(t.Context(), wire); err != nil {
		t.Fatal(err)
	}
	server := cluster.Server{Reader: cluster.Reader{Client: s, Live: s, WriteTracker: cluster.NewWriteTracker(newFakeClock())}}
	ro := &rollouts.Rollout{ObjectMeta: wire.ObjectMeta}
	for id := range int64(10) {
		ro.Status.Decisions = append(ro.Status.Decisions, rollouts.Decision{ID: id + 41, Verb: rollouts.VerbPause, User: "alice"})
	}
	end := metav1.NewTime(newFakeClock().Now())
	ro.Status.Releases = []rollouts.ReleaseRecord{{Number: 1, FirstDecision: 8, EndTime: &end}, {Number: 2, FirstDecision: 46}}
	first := ro.Status.Releases[0]
	filings := planner.HistoriesToStore(ro.Status, nil)
	if _, err := server.WriteHistory(t.Context(), cluster.ReleaseObjects{Rollout: ro}, filings[0]); err != nil {
		t.Fatal(err)
	}
	histories, err := server.Histories(t.Context(), ro)
	if err != nil {
		t.Fatal(err)
	}
	all := histories[first.Number].Decisions
	if len(all) != 38 || all[0].ID != 8 || all[37].ID != 45 {
		t.Errorf("the history has %+v, want the decisions 8 to 45", all)
	}
	if again := planner.HistoriesToStore(ro.Status, histories); len(again) != 1 || again[0].Release.Number != 2 {
		t.Errorf("filed again: %+v", again)
	}
}

// A former leader that wakes up does not replace the history that another leader has completed since, and its next
// pass reads that history.
func TestLateHistoryIsRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	server := cluster.Server{Reader: cluster.Reader{Client: s, Live: s, WriteTracker: cluster.NewWriteTracker(newFakeClock())}}
	end := metav1.NewTime(newFakeClock().Now())
	release := rollouts.ReleaseRecord{Number: 1}
	ro := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid"}}
	ro.Status.Releases = []rollouts.ReleaseRecord{release}
	aborted := &rollouts.RolloutHistoryStatus{Outcome: rollouts.ReleaseAborted}
	completed := &rollouts.RolloutHistoryStatus{Outcome: rollouts.ReleaseSucceeded, EndTime: &end}
	write := func(e planner.HistoryEntry) error {
		e.Release = release
		_, err := server.WriteHistory(t.Context(), cluster.ReleaseObjects{Rollout: ro}, e)
		return err
	}
	for _, e := range []planner.HistoryEntry{{Status: aborted}, {Status: completed, Observed: aborted}} {
		if err := write(e); err != nil {
			t.Fatal(err)
		}
	}
	for name, observed := range map[string]*rollouts.RolloutHistoryStatus{"the earlier status": aborted, "nothing": nil} {
		if err := write(planner.HistoryEntry{Status: aborted, Observed: observed}); !cluster.IsConflict(err) {
			t.Errorf("a pass that has observed %s writes the history: %v, want a conflict", name, err)
		}
	}
	histories, err := server.Histories(t.Context(), ro)
	if err != nil || histories[1].EndTime == nil || histories[1].Outcome != rollouts.ReleaseSucceeded {
		t.Errorf("the history is %+v (%v), want the completed one", histories[1], err)
	}
}

// The history of a release has what annotations say about its content from the start: those of the pod template, and
// those of the workload where the template has none.
func TestHistoryHasItsSource(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	server := cluster.Server{Reader: cluster.Reader{Client: s, Live: s, WriteTracker: cluster.NewWriteTracker(newFakeClock())}}
	release := rollouts.ReleaseRecord{Number: 1, StartTime: metav1.NewTime(newFakeClock().Now())}
	ro := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid"}}
	ro.Spec.WorkloadRef = &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	ro.Status.Releases = []rollouts.ReleaseRecord{release}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{
		"org.opencontainers.image.revision": "of the workload", "org.opencontainers.image.url": "https://example.com/pull/7",
	}}}
	d.Spec.Template.Annotations = map[string]string{"org.opencontainers.image.revision": "4f2c8a1", "org.opencontainers.image.source": "javascript:alert(1)"}
	row, _ := workload.Find("apps/v1", "Deployment", rollouts.StylePartition)
	objects := cluster.ReleaseObjects{Rollout: ro, Workload: &cluster.Workload{Row: row, Object: d}, Annotations: rollouts.DefaultReleaseAnnotations}
	if _, err := server.WriteHistory(t.Context(), objects, planner.HistoryEntry{Release: release}); err != nil {
		t.Fatal(err)
	}
	var all v1alpha1.RolloutHistoryList
	if err := s.List(t.Context(), &all); err != nil || len(all.Items) != 1 {
		t.Fatalf("%d histories, %v", len(all.Items), err)
	}
	want := &v1alpha1.ReleaseSource{Commit: "4f2c8a1", Link: "https://example.com/pull/7"}
	if diff := cmp.Diff(want, all.Items[0].Spec.Source); diff != "" {
		t.Errorf("source (-want +got):\n%s", diff)
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestBatchLabels checks the batch labels through batches and sizes. Each row gives the number of
// labelled pods per batch. A smaller workload loses its youngest pods first.
func TestBatchLabels(t *testing.T) {
	type at struct {
		batch, replicas, updated int32
		want                     []int
	}
	for _, c := range []struct {
		name    string
		style   rollouts.Style
		batches []string
		walk    []at
	}{
		{"one pod per step", rollouts.StylePartition, []string{"20%", "40%", "60%", "80%", "100%"},
			[]at{{0, 5, 1, []int{1}}, {1, 5, 2, []int{1, 1}}, {4, 5, 5, []int{1, 1, 1, 1, 1}}}},
		{"scaled up at the second", rollouts.StylePartition, []string{"20%", "40%", "60%", "100%"},
			[]at{{1, 5, 2, []int{1, 1}}, {1, 10, 4, []int{2, 2}}, {2, 10, 6, []int{2, 2, 2}}, {3, 10, 10, []int{2, 2, 2, 4}}}},
		{"blue-green scaled at both steps", rollouts.StyleBlueGreen, []string{"50%", "100%"},
			[]at{{0, 5, 3, []int{3}}, {0, 6, 3, []int{3}}, {0, 7, 4, []int{4}}, {0, 4, 2, []int{2}}, {1, 4, 4, []int{2, 2}},
				{1, 7, 7, []int{4, 3}}, {1, 8, 8, []int{4, 4}}}},
		{"scaled down at the last", rollouts.StylePartition, []string{"20%", "40%", "60%", "100%"},
			[]at{{3, 10, 10, []int{2, 2, 2, 4}}, {3, 5, 5, []int{1, 1, 1, 2}}}},
		{"more pods than the batch requested", rollouts.StylePartition, []string{"20%", "100%"}, []at{{0, 5, 3, []int{1}}}},
		{"jumped to an earlier step", rollouts.StylePartition, []string{"20%", "40%"}, []at{{1, 5, 2, []int{1, 1}}, {0, 5, 2, []int{1, 1}}}},
		{"many pods without a batch", rollouts.StylePartition, []string{"1", "3"}, []at{{1, 5, 3, []int{1, 2}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := released(c.style, c.batches)
			var pods []planner.UpdatedPod
			for _, s := range c.walk {
				pods = pods[:min(len(pods), int(s.updated))]
				for i := len(pods); i < int(s.updated); i++ {
					pods = append(pods, planner.UpdatedPod{Name: strconv.Itoa(i), UpdatedAt: time.Unix(int64(i), 0)})
				}
				marks := marksOf(b, s.batch, s.replicas, pods)
				for _, m := range marks {
					for i := range pods {
						if pods[i].Name == m.Pod {
							pods[i].RolloutID, pods[i].Batch = m.RolloutID, m.Batch
						}
					}
				}
				if again := marksOf(b, s.batch, s.replicas, pods); len(again) > 0 {
					t.Errorf("batch %d of %d: labelled, and %v once more", s.batch, s.replicas, again)
				}
				got := make([]int, len(s.want))
				for _, p := range pods {
					if p.Batch > 0 {
						got[p.Batch-1]++
					}
				}
				if diff := cmp.Diff(s.want, got); diff != "" {
					t.Errorf("pods of batches at batch %d of %d (-want +got):\n%s", s.batch, s.replicas, diff)
				}
			}
		})
	}
}

// TestReadyAfterBatchLabels checks that a batch waits for the labels of pods that the status of the
// workload counts but the cache does not contain yet.
func TestReadyAfterBatchLabels(t *testing.T) {
	b := released(rollouts.StylePartition, []string{"2"})
	w := workloadOf(b, 5, 2)
	plan := planner.DecideBatch(planner.BatchInput{Release: b, Workload: w, Pods: []planner.UpdatedPod{{Name: "a", RolloutID: "one", Batch: 1}}})
	if plan.Status.BatchState == rollouts.BatchReady {
		t.Error("ready though one of two pods is not seen yet")
	}
	w.RolloutID = ""
	plan = planner.DecideBatch(planner.BatchInput{Release: b, Workload: w})
	if plan.Status.BatchState == rollouts.BatchReady {
		t.Error("a release without a name is ready, and no pod is labelled")
	}
	plan = planner.DecideBatch(planner.BatchInput{Release: b, Workload: w, Labels: planner.LabelNamed})
	if plan.Status.BatchState != rollouts.BatchReady || len(plan.Effects) > 0 {
		t.Errorf("where it saves the labels it is %s and does %v, want Ready and nothing", plan.Status.BatchState, plan.Effects)
	}
}

// TestForgedBatch checks that an impossible batch number is replaced by the first batch.
func TestForgedBatch(t *testing.T) {
	for state, ready := range map[rollouts.BatchState]bool{rollouts.BatchUpgrading: false, rollouts.BatchReady: true} {
		b := released(rollouts.StylePartition, []string{"2"})
		w := workloadOf(b, 5, 2)
		b.Status = planner.DecideBatch(planner.BatchInput{Release: b, Workload: w}).Status
		b.Status.CurrentBatch, b.Status.BatchState = math.MinInt32, state
		plan := planner.DecideBatch(planner.BatchInput{Release: b, Workload: w})
		if plan.Status.CurrentBatch != 0 || (plan.Status.BatchState == rollouts.BatchReady) != ready {
			t.Errorf("%s: at batch %d, %s", state, plan.Status.CurrentBatch, plan.Status.BatchState)
		}
	}
}

// TestBatchLabelsOfInPlaceUpdate checks that a pod gets new labels if it was updated in place and still has
// labels from an earlier update to the same revision.
func TestBatchLabelsOfInPlaceUpdate(t *testing.T) {
	b := released(rollouts.StylePartition, []string{"20%", "40%"})
	pods := []planner.UpdatedPod{{Name: "a", UpdatedAt: time.Unix(1, 0), RolloutID: "one", Batch: 2}}
	want := []planner.PodLabel{{Pod: "a", RolloutID: "one", Batch: 1, Revision: "v2"}}
	if diff := cmp.Diff(want, marksOf(b, 0, 5, pods)); diff != "" {
		t.Errorf("labels of the first batch (-want +got):\n%s", diff)
	}
}

// TestBatchLabelsOfRollback checks that no pod is labelled before all pods of the batch are back, and
// that pods that came back are labelled before pods that never left.
func TestBatchLabelsOfRollback(t *testing.T) {
	b := released(rollouts.StylePartition, []string{"20%", "40%"})
	left := int32(2)
	b.Status = rollouts.BatchReleaseStatus{NoNeedUpdateReplicas: &left}
	stayed := []planner.UpdatedPod{{Name: "a", UpdatedAt: time.Unix(1, 0)}, {Name: "b", UpdatedAt: time.Unix(2, 0)}}
	back := planner.UpdatedPod{Name: "c", UpdatedAt: time.Unix(9, 0)}
	w := workloadOf(b, 5, 2)
	w.HasStableTemplate = true
	w.Target = newTarget(intstr.FromInt32(3), b.UID)
	labels := func(pods ...planner.UpdatedPod) []string {
		w.UpdatedReplicas, w.UpdatedReadyReplicas = int32(len(pods)), int32(len(pods))
		plan := planner.DecideBatch(planner.BatchInput{Release: b, Workload: w, Pods: pods})
		for range 2 {
			for _, a := range plan.Effects {
				if m, ok := a.(planner.LabelPods); ok {
					return []string{m.Labels[0].Pod, strconv.Itoa(len(m.Labels))}
				}
			}
			next := b.DeepCopy()
			next.Status = plan.Status
			plan = planner.DecideBatch(planner.BatchInput{Release: next, Workload: w, Pods: pods})
		}
		return nil
	}
	if got := labels(stayed...); got != nil {
		t.Errorf("%v is labelled, and the pod that the batch brings back is not there", got)
	}
	if diff := cmp.Diff([]string{"c", "1"}, labels(append(stayed, back)...)); diff != "" {
		t.Errorf("labels of the first batch (-want +got):\n%s", diff)
	}
}

func released(style rollouts.Style, batches []string) *rollouts.BatchRelease {
	plan := rollouts.ReleasePlan{RollingStyle: style, RolloutID: "one", Revision: "v2"}
	for _, b := range batches {
		plan.Batches = append(plan.Batches, rollouts.Batch{CanaryReplicas: intstr.Parse(b)})
	}
	return &rollouts.BatchRelease{ObjectMeta: metav1.ObjectMeta{UID: "b"}, Spec: rollouts.BatchReleaseSpec{Plan: plan}}
}

func workloadOf(b *rollouts.BatchRelease, replicas, updated int32) *planner.Workload {
	p := b.Spec.Plan
	if p.BatchPartition == nil {
		b.Spec.Plan.BatchPartition, p.BatchPartition = new(int32), new(int32)
	}
	return &planner.Workload{
		Settled: true, Replicas: replicas, RolloutID: p.RolloutID,
		HoldFacts:     planner.HoldFacts{Held: true, TargetApplied: true, Target: newTarget(p.Batches[*p.BatchPartition].CanaryReplicas, b.UID)},
		RevisionFacts: planner.RevisionFacts{UpdateRevision: "v2", PodTemplateHash: "v2"},
		PodFacts:      planner.PodFacts{UpdatedReplicas: updated, UpdatedReadyReplicas: updated, StableReplicas: replicas - updated, StableReadyReplicas: replicas - updated},
	}
}

func newTarget(share intstr.IntOrString, owner types.UID) *planner.Target {
	return &planner.Target{Partition: share, KeepOne: share.Type == intstr.Int, Owner: owner, Revision: planner.Revision{Name: "v2"}}
}

// marksOf returns the labels of one pass over a workload whose target is the batch.
func marksOf(b *rollouts.BatchRelease, number, replicas int32, pods []planner.UpdatedPod) []planner.PodLabel {
	b = b.DeepCopy()
	b.Spec.Plan.BatchPartition = &number
	w := workloadOf(b, replicas, int32(len(pods)))
	for range 2 {
		plan := planner.DecideBatch(planner.BatchInput{Release: b, Workload: w, Pods: pods})
		b.Status = plan.Status
		for _, a := range plan.Effects {
			if m, ok := a.(planner.LabelPods); ok {
				return m.Labels
			}
		}
	}
	return nil
}

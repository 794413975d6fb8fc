// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/forecast"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// TestForecast compares the forecast of each release in the stories with the actual pods and
// requests, for every step until something interferes.
func TestForecast(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	steps := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := newStory(t)
		f := &forecastCheck{story: s, file: file}
		s.t.foretold = f
		for block := range strings.SplitSeq(string(data), "\n\n") {
			commands, _, _ := strings.Cut(block, dashes+"\n")
			lines := strings.Split(strings.TrimRight(commands, "\n"), "\n")
			for i := 0; i < len(lines); {
				n := i + 1
				for n < len(lines) && strings.HasPrefix(lines[n], " ") {
					n++
				}
				words := strings.Fields(lines[i])
				f.before(words)
				s.run(lines[i:n])
				f.after(words)
				i = n
			}
		}
		steps += f.steps
	}
	if t.Logf("%d steps of %d stories", steps, len(files)); steps < 150 {
		t.Errorf("only %d steps were compared", steps)
	}
}

// forecastCheck compares a forecast with the release.
type forecastCheck struct {
	*story
	file string
	// forecastSteps is nil without a forecast. tag is the released image.
	forecastSteps []rollouts.PlannedStep
	tag           string
	// peak and minReady are those of the current step.
	peak, minReady int32
	// steps is the number of compared steps.
	steps int
}

// harmless are the commands that do not invalidate a forecast.
var harmless = []string{"settle", "advance", "show", "explain", "labels", "history", "promote", "approve", "pass"}

// before ends the comparison if a command interferes with the release.
func (f *forecastCheck) before(words []string) {
	if len(words) > 0 && !strings.HasPrefix(words[0], "#") && !slices.Contains(harmless, words[0]) {
		f.forecastSteps = nil
	}
}

// after makes a forecast if a command begins a release.
func (f *forecastCheck) after(words []string) {
	resized := slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "replicas=") })
	if len(words) > 0 && words[0] == "update" && !resized && len(workloads(f.story.w.store.objects)) == 1 {
		f.makeForecast(words[1])
	}
}

// makeForecast makes the forecast of a release that is about to begin.
func (f *forecastCheck) makeForecast(name string) {
	w := f.story.w
	r, o := find[*rollouts.Rollout](w.store.objects, kindRollout, name), appOf(w.store.objects, name)
	if r == nil || o == nil || r.Status.Phase != rollouts.PhaseHealthy || r.Spec.Strategy.Paused || o.GetAnnotations()[rollouts.AnnotationInProgress] == "" {
		return
	}
	f.tag = tagOf(templateOf(o))
	row, ok := workload.Find(r.Spec.WorkloadRef.APIVersion, r.Spec.WorkloadRef.Kind, rollouts.StyleFor(&r.Spec.Strategy, r.Spec.WorkloadRef))
	update, stable, ready := f.countPods()
	if !ok || update > 0 || ready != stable || w.store.unready[f.tag] || w.store.unready["v1"] {
		return
	}
	seen := cachedCluster{w}.readWorkload(row, name, planner.HoldState{})
	facts := row.Facts(seen.Object, seen.Owned, row.HoldOf(seen.Object, seen.Owned, planner.HoldState{Holder: name, Releasing: true}), nil)
	begin := forecast.Start{Rollout: r, Workload: facts, Stable: stable}
	begin.Surge, begin.Workload.MaxUnavailable = row.OwnerLimits(seen.Object)
	f.forecastSteps = forecast.Compute(begin).Steps
	f.peak, f.minReady = stable, stable
}

// countPods returns the requested pods of the new version and of other versions, and the number of
// ready pods.
func (f *forecastCheck) countPods() (update, stable, ready int32) {
	add := func(tag string, n, of int32) {
		if ready += min(n, of); tag == f.tag {
			update += of
		} else {
			stable += of
		}
	}
	objects := f.story.w.store.objects
	for _, rs := range listOf[*appsv1.ReplicaSet](objects) {
		if rs.DeletionTimestamp == nil {
			add(imageOfSet(rs), rs.Status.ReadyReplicas, *rs.Spec.Replicas)
		}
	}
	for _, p := range podsIn(objects) {
		if !isTerminating(p) {
			n := int32(0)
			if isReady(p) {
				n = 1
			}
			add(podTag(p), n, 1)
		}
	}
	return update, stable, ready
}

// compareAfterWrite compares the forecast with the state after a write.
func (f *forecastCheck) compareAfterWrite(old, next object.Object) {
	if f.forecastSteps == nil {
		return
	}
	update, stable, ready := f.countPods()
	f.peak, f.minReady = max(f.peak, update+stable), min(f.minReady, ready)
	if in, ok := next.(*networkingv1.Ingress); ok {
		f.compareWeight(in)
	}
	was, ok := old.(*rollouts.Rollout)
	is, still := next.(*rollouts.Rollout)
	if !ok || !still {
		return
	}
	from, to := was.Status.Active(), is.Status.Active()
	if is.Status.Activity() == rollouts.ActivityAborting || from != nil && to != nil && from.UpdateRevision != "" && to.UpdateRevision != from.UpdateRevision && from.State == rollouts.StepUpgrade {
		f.forecastSteps = nil
		return
	}
	if from == nil || to == nil || from.State != rollouts.StepUpgrade || from.State == to.State && from.CurrentStepIndex == to.CurrentStepIndex {
		return
	}
	f.compare(from.CurrentStepIndex, update, stable)
	f.peak, f.minReady = update+stable, ready
}

func (f *forecastCheck) compare(step, update, stable int32) {
	f.steps++
	p := f.forecastSteps[step-1]
	if p.Update != update || p.Stable != stable || p.Peak != f.peak || p.MinReady != f.minReady {
		f.Errorf("%s: step %d: foretold %d new and %d old, at most %d, %d ready at least %+v; there are %d and %d, %d, %d", f.file, step,
			p.Update, p.Stable, p.Peak, p.MinReady, p.Waves, update, stable, f.peak, f.minReady)
	}
}

// compareWeight compares the weight of an Ingress.
func (f *forecastCheck) compareWeight(in *networkingv1.Ingress) {
	r := find[*rollouts.Rollout](f.story.w.store.objects, kindRollout, strings.TrimSuffix(in.Name, rollouts.CanarySuffix))
	weight := in.Annotations["nginx.ingress.kubernetes.io/canary-weight"]
	if f.forecastSteps == nil || r == nil || r.Status.Active() == nil || weight == "" || weight == "0" {
		return
	}
	if _, plan := r.Spec.Strategy.Active(); len(plan.TrafficRoutings) == 0 {
		return // a TrafficRouting sets the weight
	}
	p := f.forecastSteps[r.Status.Active().CurrentStepIndex-1]
	if p.Traffic == nil || f.number(weight) != *p.Traffic {
		f.Errorf("%s: step %d: foretold %v %% of the requests, the ingress sends %s", f.file, p.Step, p.Traffic, weight)
	}
}

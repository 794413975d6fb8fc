// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"strconv"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// flaggerCanary converts a Canary of Flagger.
func flaggerCanary(s *source, all *templates) []any {
	m, spec := meta(s), child(s.object, "spec")
	r := rolloutOf(m, workloadOf(child(spec, "targetRef")))
	analysis := child(spec, "analysis")
	if analysis == nil {
		analysis = child(spec, "canaryAnalysis") // as older ones have it
	}
	release := v1beta1.Release{}
	flaggerRouting(s, spec, r.Spec.WorkloadRef.Name, &release)
	green := flaggerSteps(s, analysis, &release)
	if green && r.Spec.WorkloadRef.Kind == "DaemonSet" {
		s.note(0, "spec.analysis.iterations: a DaemonSet has no second set of pods: every pod is replaced in step 1")
		green = false
	}
	if deadline, ok := number(spec, "progressDeadlineSeconds"); ok {
		release.ProgressDeadlineSeconds = new(int32(deadline))
	}
	flaggerAnalysis(s, analysis, all, &release)
	if green {
		r.Spec.Strategy.BlueGreen = &v1beta1.BlueGreenStrategy{Release: release}
	} else {
		r.Spec.Strategy.Canary = &v1beta1.CanaryStrategy{Release: release}
	}
	return []any{r}
}

// flaggerSteps makes steps of weights, and reports whether the release is blue-green.
func flaggerSteps(s *source, analysis map[string]any, release *v1beta1.Release) bool {
	every, ok := seconds(analysis["interval"])
	delete(analysis, "interval")
	if !ok {
		every = 60
	}
	routed := len(release.TrafficRoutings) > 0
	iterations, _ := number(analysis, "iterations")
	if matches := objects(analysis, "match"); len(matches) > 0 {
		step := v1beta1.Step{Replicas: share(50), Pause: pause(every * max(iterations, 1))}
		for _, m := range matches {
			step.Matches = append(step.Matches, flaggerMatch(s, m))
		}
		release.Steps = finish(s, []v1beta1.Step{step})
		return false
	}
	if iterations > 0 {
		release.Steps = []v1beta1.Step{{Replicas: share(100), Pause: pause(every * iterations)}, {Replicas: share(100), Pause: pause(0)}}
		return true
	}
	for _, weight := range flaggerWeights(analysis) {
		step := v1beta1.Step{Replicas: share(weight), Pause: pause(every)}
		if routed {
			step.Traffic = new(strconv.FormatInt(weight, 10) + "%")
		}
		release.Steps = append(release.Steps, step)
	}
	release.Steps = finish(s, release.Steps)
	return false
}

// mostWeights bounds the steps; Weir has 50 at most.
const mostWeights = 48

// flaggerWeights are those of the steps.
func flaggerWeights(analysis map[string]any) []int64 {
	var weights []int64
	list, _ := take[[]any](analysis, "stepWeights")
	for _, item := range list {
		if n, ok := seconds(item); ok {
			weights = append(weights, n)
		}
	}
	most, bounded := number(analysis, "maxWeight")
	step, ok := number(analysis, "stepWeight")
	if !bounded {
		most = 100
	}
	for n := step; ok && n > 0 && n <= most && len(weights) < mostWeights; n += step {
		weights = append(weights, n)
	}
	return weights
}

// flaggerMatch converts a match of headers.
func flaggerMatch(s *source, match map[string]any) v1beta1.RouteMatch {
	var m v1beta1.RouteMatch
	headers := child(match, "headers")
	for _, name := range sortedKeys(headers) {
		m.Headers = append(m.Headers, valueMatch(name, child(headers, name)))
	}
	s.left(1, "spec.analysis.match", match)
	return m
}

// flaggerAnalysis converts metrics, and what asks a person.
func flaggerAnalysis(s *source, analysis map[string]any, all *templates, release *v1beta1.Release) {
	var made v1beta1.Analysis
	threshold, limited := number(analysis, "threshold")
	counted := false
	for _, metric := range objects(analysis, "metrics") {
		c, ok := flaggerMetric(s, metric, all, &made)
		if !ok {
			continue
		}
		if limited && c.Query != nil {
			counted, c.FailAfter = true, new(int32(max(threshold, 1)))
		}
		made.Checks = append(made.Checks, c)
	}
	if limited && !counted {
		s.note(0, "spec.analysis.threshold: %d: no check here counts failures", threshold)
	}
	if len(made.Checks) > 0 {
		release.Analysis = &made
	}
	for _, hook := range objects(analysis, "webhooks") {
		flaggerHook(s, hook, release.Steps)
	}
}

// flaggerHook has a step wait for a person where Flagger asks a server for a confirmation.
func flaggerHook(s *source, hook map[string]any, steps []v1beta1.Step) {
	name, kind, address := text(hook, "name"), cmp.Or(text(hook, "type"), "rollout"), text(hook, "url")
	step := map[string]int{"confirm-rollout": 1, "confirm-promotion": len(steps) - 1}[kind]
	if step > 0 && step <= len(steps) {
		steps[step-1].Pause = &v1beta1.Pause{}
		s.note(step, "webhook %s (%s): %s: the step waits for an approval instead", name, kind, address)
	} else {
		s.note(0, "webhook %s (%s): %s", name, kind, address)
	}
	s.left(step, "webhook "+name, hook)
}

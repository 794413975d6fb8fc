// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// convertFlaggerCanary converts a Canary of Flagger to a Rollout.
func convertFlaggerCanary(s *manifestSource, all *templates) []any {
	m, spec := takeMetadata(s), getChild(s.object, "spec")
	r := newRollout(m, takeWorkloadRef(getChild(spec, "targetRef")))
	analysis := getChild(spec, "analysis")
	if analysis == nil {
		analysis = getChild(spec, "canaryAnalysis") // the field of earlier versions of Flagger
	}
	release := v1beta1.Release{}
	convertFlaggerRouting(s, spec, r.Spec.WorkloadRef.Name, &release)
	green := convertFlaggerSteps(s, analysis, &release)
	if green && r.Spec.WorkloadRef.Kind == "DaemonSet" {
		s.addHint(0, "spec.analysis.iterations: a DaemonSet has no second set of pods, so step 1 replaces every pod")
		green = false
	}
	if deadline, ok := takeNumber(spec, "progressDeadlineSeconds"); ok {
		release.ProgressDeadlineSeconds = new(int32(deadline))
	}
	convertFlaggerAnalysis(s, analysis, all, &release)
	if green && len(release.TrafficRoutings) == 0 {
		s.addHint(0, unroutedBlueGreen)
	}
	if green {
		r.Spec.Strategy.BlueGreen = &v1beta1.BlueGreenStrategy{Release: release}
	} else {
		r.Spec.Strategy.Canary = &v1beta1.CanaryStrategy{Release: release}
	}
	return []any{r}
}

// convertFlaggerSteps sets the steps of the release, and reports whether the release is blue-green.
func convertFlaggerSteps(s *manifestSource, analysis map[string]any, release *v1beta1.Release) bool {
	every, ok := parseSeconds(analysis["interval"])
	delete(analysis, "interval")
	if !ok {
		every = 60
	}
	routed := len(release.TrafficRoutings) > 0
	iterations, _ := takeNumber(analysis, "iterations")
	if matches := takeObjects(analysis, "match"); len(matches) > 0 {
		step := v1beta1.Step{Replicas: percentage(50), Pause: pauseFor(every * max(iterations, 1))}
		for _, m := range matches {
			step.Matches = append(step.Matches, convertFlaggerMatch(s, m))
		}
		release.Steps = completeSteps(s, []v1beta1.Step{step})
		return false
	}
	if iterations > 0 {
		release.Steps = []v1beta1.Step{{Replicas: percentage(100), Pause: pauseFor(every * iterations)}, {Replicas: percentage(100), Pause: pauseFor(0)}}
		return true
	}
	for _, weight := range convertFlaggerWeights(analysis) {
		step := v1beta1.Step{Replicas: percentage(weight), Pause: pauseFor(every)}
		if routed {
			step.Traffic = new(strconv.FormatInt(weight, 10) + "%")
		}
		release.Steps = append(release.Steps, step)
	}
	release.Steps = completeSteps(s, release.Steps)
	return false
}

// maxWeights limits the steps. Weir permits 50 steps.
const maxWeights = 48

// convertFlaggerWeights returns the weights of the steps.
func convertFlaggerWeights(analysis map[string]any) []int64 {
	var weights []int64
	list, _ := takeField[[]any](analysis, "stepWeights")
	for _, item := range list {
		if n, ok := parseSeconds(item); ok {
			weights = append(weights, n)
		}
	}
	most, bounded := takeNumber(analysis, "maxWeight")
	step, ok := takeNumber(analysis, "stepWeight")
	if !bounded {
		most = 100
	}
	for n := step; ok && n > 0 && n <= most && len(weights) < maxWeights; n += step {
		weights = append(weights, n)
	}
	return weights
}

// convertFlaggerMatch converts a match of headers.
func convertFlaggerMatch(s *manifestSource, match map[string]any) v1beta1.RouteMatch {
	var m v1beta1.RouteMatch
	headers := getChild(match, "headers")
	for _, name := range sortedKeys(headers) {
		m.Headers = append(m.Headers, convertValueMatch(name, getChild(headers, name)))
	}
	s.noteRemaining(1, "spec.analysis.match", match)
	return m
}

// convertFlaggerAnalysis converts the metrics and the webhooks of the analysis.
func convertFlaggerAnalysis(s *manifestSource, analysis map[string]any, all *templates, release *v1beta1.Release) {
	var made v1beta1.Analysis
	threshold, limited := takeNumber(analysis, "threshold")
	counted := false
	for _, metric := range takeObjects(analysis, "metrics") {
		c, ok := convertFlaggerMetric(s, metric, all, &made)
		if !ok {
			continue
		}
		c.Name = uniqueName(c.Name, func(name string) bool {
			return slices.ContainsFunc(made.Checks, func(other v1beta1.Check) bool { return other.Name == name })
		})
		if limited && c.Query != nil {
			counted, c.FailAfter = true, new(int32(max(threshold, 1)))
		}
		made.Checks = append(made.Checks, c)
	}
	if limited && !counted {
		s.addNote(0, "spec.analysis.threshold: %d: the checks of this Rollout do not count failures", threshold)
	}
	if len(made.Checks) > 0 {
		release.Analysis = &made
	}
	for _, hook := range takeObjects(analysis, "webhooks") {
		convertFlaggerHook(s, hook, release.Steps)
	}
}

// convertFlaggerHook makes a step wait for an approval if the webhook asks for a confirmation.
func convertFlaggerHook(s *manifestSource, hook map[string]any, steps []v1beta1.Step) {
	name, kind, address := takeText(hook, "name"), cmp.Or(takeText(hook, "type"), "rollout"), takeText(hook, "url")
	step := map[string]int{"confirm-rollout": 1, "confirm-promotion": len(steps) - 1}[kind]
	if step > 0 && step <= len(steps) {
		steps[step-1].Pause = &v1beta1.Pause{}
		s.addHint(step, "webhook %s (%s): %s: the step waits for an approval instead", name, kind, address)
	} else {
		s.addNote(0, "webhook %s (%s): %s", name, kind, address)
	}
	s.noteRemaining(step, "webhook "+name, hook)
}

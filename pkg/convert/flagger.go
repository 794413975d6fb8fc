// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// flaggerCanary converts a Canary of Flagger.
func flaggerCanary(s *source, all *templates) []any {
	m, spec := meta(s), child(s.object, "spec")
	ref := child(spec, "targetRef")
	r := rolloutOf(m, v1beta1.ObjectRef{APIVersion: text(ref, "apiVersion"), Kind: text(ref, "kind"), Name: text(ref, "name")})
	field := "analysis"
	if child(spec, field) == nil {
		field = "canaryAnalysis" // as older ones have it
	}
	analysis := child(spec, field)
	release := v1beta1.Release{}
	flaggerRouting(s, spec, r.Spec.WorkloadRef.Name, &release)
	green := flaggerSteps(s, analysis, &release)
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

// flaggerRouting names the Service, and what routes to it.
func flaggerRouting(s *source, spec map[string]any, workload string, release *v1beta1.Release) {
	service := child(spec, "service")
	ref := v1beta1.TrafficRoutingRef{Service: cmp.Or(text(service, "name"), workload)}
	provider := text(spec, "provider")
	if name := text(spec, "ingressRef", "name"); name != "" {
		ingress(s, &ref, "nginx", name)
		text(spec, "ingressRef", "apiVersion")
		text(spec, "ingressRef", "kind")
	}
	switch kind, _, _ := strings.Cut(provider, ":"); kind {
	case "gatewayapi":
		ref.Gateway = &v1beta1.GatewayRef{HTTPRouteName: new(ref.Service)}
	case "istio":
		custom(&ref, istio, "VirtualService", ref.Service)
	case "traefik":
		custom(&ref, traefik, "TraefikService", ref.Service)
	case "", "nginx", "kubernetes":
	default:
		s.note(0, "spec.provider: %s", provider)
	}
	s.note(0, "spec.service: Flagger makes Services and routes of %s; write them down before it is removed", ref.Service)
	if ref.Ingress == nil && ref.Gateway == nil && len(ref.CustomNetworkRefs) == 0 {
		return
	}
	release.TrafficRoutings = []v1beta1.TrafficRoutingRef{ref}
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
	var failAfter *int32
	if n, ok := number(analysis, "threshold"); ok {
		failAfter = new(int32(max(n, 1)))
	}
	var checks []v1beta1.Check
	for _, metric := range objects(analysis, "metrics") {
		if c, ok := flaggerMetric(s, metric, all, failAfter); ok {
			checks = append(checks, c)
		}
	}
	if len(checks) > 0 {
		release.Analysis = &v1beta1.Analysis{Checks: checks}
	}
	for _, hook := range objects(analysis, "webhooks") {
		steps := release.Steps
		switch kind, _ := hook["type"].(string); {
		case kind == "confirm-rollout" && len(steps) > 0:
			steps[0].Pause = &v1beta1.Pause{}
			s.note(1, "webhook %v: the step waits for an approval instead", hook["name"])
		case kind == "confirm-promotion" && len(steps) > 1:
			steps[len(steps)-2].Pause = &v1beta1.Pause{}
			s.note(len(steps)-1, "webhook %v: the step waits for an approval instead", hook["name"])
		default:
			s.note(0, "spec.analysis.webhooks: %v (%v)", hook["name"], cmp.Or(kind, "rollout"))
		}
	}
}

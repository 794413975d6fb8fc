// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestPlanHash checks that the hash covers the number of steps and their requests, and not the
// duration of waits.
func TestPlanHash(t *testing.T) {
	t.Parallel()
	plan := func() *rollouts.Release {
		r := plans[0]()
		r.TrafficRoutings = ingressOf("web", 3*time.Second)
		return &r
	}
	before := planner.PlanHash(plan())
	text := func(s string) *string { return &s }
	threshold, other := intstr.FromString("20%"), intstr.FromString("21%")
	tests := map[string]struct {
		change func(*rollouts.Release)
		same   bool
	}{
		"nothing":               {func(*rollouts.Release) {}, true},
		"a pause":               {func(r *rollouts.Release) { r.Steps[0].Pause = rollouts.Pause{Duration: new(int32), Given: true} }, true},
		"the failure threshold": {func(r *rollouts.Release) { r.FailureThreshold = &threshold }, true},
		"a step less":           {func(r *rollouts.Release) { r.Steps = r.Steps[1:] }, false},
		"the order of steps":    {func(r *rollouts.Release) { r.Steps[0], r.Steps[1] = r.Steps[1], r.Steps[0] }, false},
		"replicas":              {func(r *rollouts.Release) { r.Steps[0].Replicas = &other }, false},
		"no replicas":           {func(r *rollouts.Release) { r.Steps[0].Replicas = nil }, false},
		"traffic":               {func(r *rollouts.Release) { r.Steps[0].Traffic = text("21%") }, false},
		"no traffic":            {func(r *rollouts.Release) { r.Steps[0].Traffic = nil }, false},
		"a match of a path":     {func(r *rollouts.Release) { r.Steps[0].Matches = []rollouts.RouteMatch{{Path: &rollouts.PathMatch{}}} }, false},
		"a match of a header":   {match(rollouts.RouteMatch{Headers: []rollouts.ValueMatch{{Name: "a", Value: "b"}}}), false},
		"a match of a query":    {match(rollouts.RouteMatch{QueryParams: []rollouts.ValueMatch{{Name: "a", Value: "b"}}}), false},
		"a modifier": {func(r *rollouts.Release) {
			r.Steps[0].RequestHeaderModifier = &rollouts.HeaderModifier{Remove: []string{"a"}}
		}, false},
		"the service":              {func(r *rollouts.Release) { r.TrafficRoutings[0].Service = "other" }, false},
		"the grace period":         {func(r *rollouts.Release) { r.TrafficRoutings[0].GracePeriodSeconds = 4 }, false},
		"the ingress":              {func(r *rollouts.Release) { r.TrafficRoutings[0].Ingress.Name = "other" }, false},
		"the class of the ingress": {func(r *rollouts.Release) { r.TrafficRoutings[0].Ingress.ClassType = text("other") }, false},
		"no ingress":               {func(r *rollouts.Release) { r.TrafficRoutings[0].Ingress = nil }, false},
		"a gateway": {func(r *rollouts.Release) {
			r.TrafficRoutings[0].Gateway = &rollouts.GatewayRef{HTTPRouteName: text("a")}
		}, false},
		"a custom route":         {func(r *rollouts.Release) { r.TrafficRoutings[0].CustomNetworkRefs = []rollouts.ObjectRef{{Name: "a"}} }, false},
		"no routing":             {func(r *rollouts.Release) { r.TrafficRoutings = nil }, false},
		"a routing by reference": {func(r *rollouts.Release) { r.TrafficRoutingRef = text("a") }, false},
		"an extra workload":      {func(r *rollouts.Release) { r.ExtraWorkload = true }, false},
		"no canary service":      {func(r *rollouts.Release) { r.DisableCanaryService = true }, false},
		"metadata of pods": {func(r *rollouts.Release) {
			r.PodTemplateMetadata = &rollouts.PodTemplateMetadata{Labels: map[string]string{"a": "b"}}
		}, false},
	}
	seen := map[string]string{}
	for name, test := range tests {
		r := plan()
		test.change(r)
		after := planner.PlanHash(r)
		if (after == before) != test.same {
			t.Errorf("%s: the hash stays the same: %t, want %t", name, after == before, test.same)
		}
		if other, ok := seen[after]; ok && !test.same {
			t.Errorf("%s has the hash of %s", name, other)
		}
		seen[after] = name
	}
	if planner.PlanHash(nil) != "" {
		t.Error("no plan has a hash")
	}
}

func match(m rollouts.RouteMatch) func(*rollouts.Release) {
	return func(r *rollouts.Release) { r.Steps[0].Matches = []rollouts.RouteMatch{m} }
}

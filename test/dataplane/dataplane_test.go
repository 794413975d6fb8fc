// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic

package dataplane

import (
	"context"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// step is a step that waits for approval. A step with "100%" would not wait.
func step(replicas, traffic string) v1beta1.Step {
	size := intstr.Parse(replicas)
	return v1beta1.Step{Replicas: &size, Traffic: &traffic}
}

// stepForHeader routes requests with the header, and no others.
func stepForHeader(replicas string) v1beta1.Step {
	size := intstr.Parse(replicas)
	return v1beta1.Step{Replicas: &size, Matches: []v1beta1.RouteMatch{{
		Headers: []v1beta1.ValueMatch{{Name: headerName, Value: "yes"}},
	}}}
}

// releaseWithRoute has these steps and an HTTPRoute, with the default grace period.
func releaseWithRoute(steps ...v1beta1.Step) v1beta1.Release {
	return v1beta1.Release{
		Steps:           steps,
		TrafficRoutings: []v1beta1.TrafficRoutingRef{{Service: name, Gateway: &v1beta1.GatewayRef{HTTPRouteName: new(name)}}},
	}
}

func canary(steps ...v1beta1.Step) *v1beta1.Strategy {
	return &v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{Release: releaseWithRoute(steps...), EnableExtraWorkloadForCanary: new(true)}}
}

func partition(steps ...v1beta1.Step) *v1beta1.Strategy {
	return &v1beta1.Strategy{Canary: &v1beta1.CanaryStrategy{Release: releaseWithRoute(steps...)}}
}

func blueGreen(steps ...v1beta1.Step) *v1beta1.Strategy {
	return &v1beta1.Strategy{BlueGreen: &v1beta1.BlueGreenStrategy{Release: releaseWithRoute(steps...)}}
}

func releases(version string) func(*app) { return func(a *app) { a.release(version) } }

func sends(verb string) func(*app) { return func(a *app) { a.post(verb, "") } }

func waits(step int32) func(*app) func(context.Context) error {
	return func(a *app) func(context.Context) error { return a.waitsAtStep(step) }
}

func bothHold(one, other func(*app) func(context.Context) error) func(*app) func(context.Context) error {
	return func(a *app) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := one(a)(ctx); err != nil {
				return err
			}
			return other(a)(ctx)
		}
	}
}

// releaseEnded returns a check that the release has ended and all pods are of one version.
func releaseEnded(version string) func(*app) func(context.Context) error {
	return bothHold(func(a *app) func(context.Context) error { return a.isHealthy }, runs(version))
}

func runs(version string) func(*app) func(context.Context) error {
	return func(a *app) func(context.Context) error { return a.runs(version) }
}

func aborted(a *app) func(context.Context) error { return a.isAborted }

// scenarios are the tested releases. Pods stop serving as soon as they are deleted, unless they
// drain. Pods drain in the scenarios in which pods that receive requests are deleted: by the steps
// of the partition style, and by the native controller at the end of the canary style. In any case
// the proxy observes the end of a pod later than the pod itself.
var scenarios = map[string]scenario{
	"canary": {
		podsDrain: true,
		strategy:  canary(step("1", "5%"), step("20%", "20%"), step("50%", "50%"), step("10", "100%")),
		moves: []move{
			{what: "release", do: releases(update), reach: waits(1), split: all(0.05)},
			{what: "promote to 20%", do: sends("promote"), reach: waits(2), split: all(0.20)},
			{what: "promote to 50%", do: sends("promote"), reach: waits(3), split: all(0.50)},
			{what: "promote to 100%", do: sends("promote"), reach: waits(4), split: all(1)},
			{what: "promote to the end", do: sends("promote"), reach: releaseEnded(update), split: all(1)},
		},
	},
	"header": {
		strategy: canary(stepForHeader("20%"), step("10", "100%")),
		moves: []move{
			{what: "release", do: releases(update), reach: waits(1), split: split{marked: 1}},
			{what: "promote to 100%", do: sends("promote"), reach: waits(2), split: all(1)},
			{what: "revert the template", do: releases(stable), reach: releaseEnded(stable), split: all(0)},
		},
	},
	"abort": {
		strategy: canary(step("20%", "20%"), step("50%", "50%"), step("10", "100%")),
		moves: []move{
			{what: "release", do: releases(update), reach: waits(1), split: all(0.20)},
			{what: "promote to 50%", do: sends("promote"), reach: waits(2), split: all(0.50)},
			{what: "abort", do: sends("abort"), reach: aborted, split: all(0)},
			{what: "revert the template", do: releases(stable), reach: releaseEnded(stable), split: all(0)},
		},
	},
	"blue-green": {
		strategy: blueGreen(step("10", "0%"), step("10", "100%")),
		moves: []move{
			{what: "release", do: releases(update), reach: waits(1), split: all(0)},
			{what: "switch", do: sends("promote"), reach: waits(2), split: all(1)},
			{what: "promote to the end", do: sends("promote"), reach: releaseEnded(update), split: all(1)},
		},
	},
	"rollback": {
		strategy: canary(step("20%", "20%"), step("10", "100%")),
		moves: []move{
			{what: "release", do: releases(update), reach: waits(1), split: all(0.20)},
			{what: "revert the template", do: releases(stable), reach: releaseEnded(stable), split: all(0)},
		},
	},
	"partition": {
		podsDrain: true,
		strategy:  partition(step("20%", "20%"), step("50%", "50%"), step("10", "100%")),
		moves: []move{
			{what: "release", do: releases(update), reach: waits(1), split: all(0.20)},
			{what: "promote to 50%", do: sends("promote"), reach: waits(2), split: all(0.50)},
			{what: "promote to 100%", do: sends("promote"), reach: bothHold(waits(3), runs(update)), split: all(1)},
			{what: "promote to the end", do: sends("promote"), reach: releaseEnded(update), split: all(1)},
		},
	},
	// A rolling update without Weir, for comparison.
	"native": {
		withoutWeir: true,
		moves:       []move{{what: "rolling update", do: releases(update), reach: runs(update), split: all(1)}},
	},
}

// TestTraffic checks that a release loses no request, and that each version gets its share of
// requests as soon as Weir reports it.
func TestTraffic(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		t.Run(name, func(t *testing.T) {
			runScenario(t, name, scenarios[name])
		})
	}
}

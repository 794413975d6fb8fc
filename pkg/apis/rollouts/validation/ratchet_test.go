// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
)

// offences are Rollouts that an older server may have stored: each breaks a rule. Each has a change
// of another field, and a change of the invalid field.
var offences = map[string]struct {
	offend, change func(*rollouts.Rollout)
	// want is the error when the field is changed and still breaks the rule.
	want string
}{
	"no workload": {
		offend: func(r *rollouts.Rollout) {
			r.Spec.WorkloadRef = &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Job", Name: "web"}
		},
		change: func(r *rollouts.Rollout) { r.Spec.WorkloadRef.Kind = "Pod" }, want: "spec.workloadRef.kind: Invalid value",
	},
	"no strategy": {offend: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary = nil }},
	"two strategies": {
		offend: func(r *rollouts.Rollout) { r.Spec.Strategy.BlueGreen = r.Spec.Strategy.Canary.DeepCopy() },
	},
	"too many routers": {
		offend: func(r *rollouts.Rollout) { routing(r).CustomNetworkRefs = refs(8000, "example.com/v1", "Mesh") },
		change: func(r *rollouts.Rollout) { routing(r).CustomNetworkRefs = refs(17, "example.com/v1", "Mesh") },
		want:   "spec.strategy.canary.trafficRoutings[0].customNetworkRefs: Too many",
	},
	"a router of an unsupported kind": {
		offend: func(r *rollouts.Rollout) { routing(r).CustomNetworkRefs = refs(1, "v1", "Pod") },
		change: func(r *rollouts.Rollout) { routing(r).CustomNetworkRefs = refs(1, "v1", "Secret") },
		want:   "spec.strategy.canary.trafficRoutings[0].customNetworkRefs[0].kind: Invalid value",
	},
	"no steps": {offend: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.Steps = nil }},
	"too many steps": {
		offend: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.Steps = steps(60) },
		change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.Steps = steps(55) }, want: "spec.strategy.canary.steps: Too many",
	},
	"fewer replicas than before": {
		offend: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.Steps[1].Replicas = percent("10%") },
		change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.Steps[1].Replicas = percent("11%") },
		want:   "spec.strategy.canary.steps[1].replicas: Invalid value",
	},
	"no replicas": {
		offend: func(r *rollouts.Rollout) { step(r).Replicas = number(0) },
		change: func(r *rollouts.Rollout) { step(r).Replicas = number(-1) }, want: "spec.strategy.canary.steps[0].replicas: Invalid value",
	},
	"an invalid traffic": {
		offend: func(r *rollouts.Rollout) { step(r).Traffic = new("much") },
		change: func(r *rollouts.Rollout) { step(r).Traffic = new("more") }, want: "spec.strategy.canary.steps[0].traffic: Invalid value",
	},
	"a negative pause": {
		offend: func(r *rollouts.Rollout) { step(r).Pause.Duration = new(int32(-1)) },
		change: func(r *rollouts.Rollout) { step(r).Pause.Duration = new(int32(-2)) }, want: "spec.strategy.canary.steps[0].pause.duration: Invalid value",
	},
	"an invalid path": {
		offend: func(r *rollouts.Rollout) {
			step(r).Matches = []rollouts.RouteMatch{{Path: &rollouts.PathMatch{Value: new("a")}}}
		},
		change: func(r *rollouts.Rollout) { step(r).Matches[0].Path.Value = new("b") },
		want:   "spec.strategy.canary.steps[0].matches[0].path.value: Invalid value",
	},
	"a long value": {
		offend: func(r *rollouts.Rollout) {
			step(r).Matches = []rollouts.RouteMatch{{Headers: []rollouts.ValueMatch{{Name: "a", Value: strings.Repeat("a", 5000)}}}}
		},
		change: func(r *rollouts.Rollout) { step(r).Matches[0].Headers[0].Value = strings.Repeat("b", 5000) },
		want:   "spec.strategy.canary.steps[0].matches[0].headers[0].value: Too long",
	},
	"a header twice": {offend: func(r *rollouts.Rollout) {
		step(r).RequestHeaderModifier = &rollouts.HeaderModifier{Remove: []string{"a", "a"}}
	}},
	"two routings": {offend: func(r *rollouts.Rollout) {
		c := r.Spec.Strategy.Canary
		c.TrafficRoutings = append(c.TrafficRoutings, c.TrafficRoutings[0])
	}},
	"no router": {offend: func(r *rollouts.Rollout) { routing(r).Ingress = nil }},
	"a negative grace period": {
		offend: func(r *rollouts.Rollout) { routing(r).GracePeriodSeconds = -1 },
		change: func(r *rollouts.Rollout) { routing(r).GracePeriodSeconds = -2 },
		want:   "spec.strategy.canary.trafficRoutings[0].gracePeriodSeconds: Invalid value",
	},
	"an invalid threshold": {
		offend: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.FailureThreshold = percent("few") },
		change: func(r *rollouts.Rollout) { r.Spec.Strategy.Canary.FailureThreshold = percent("some") },
		want:   "spec.strategy.canary.failureThreshold: Invalid value",
	},
	"counters before traffic": {offend: func(r *rollouts.Rollout) {
		r.Spec.Strategy.Canary.Analysis = &rollouts.Analysis{Checks: []rollouts.Check{{
			At: rollouts.AtBeforeTraffic, Query: &rollouts.QueryCheck{Bad: "m_bad", Total: "m"},
		}}}
	}},
	"invalid pod labels": {offend: func(r *rollouts.Rollout) {
		r.Spec.Strategy.Canary.PodTemplateMetadata = &rollouts.PodTemplateMetadata{Labels: map[string]string{"a": "no label"}}
	}},
	"an unknown style": {
		offend: func(r *rollouts.Rollout) { r.Annotations = style("green") },
		change: func(r *rollouts.Rollout) { r.Annotations = style("red") },
		want:   "metadata.annotations[rollouts.kruise.io/rolling-style]: Unsupported value",
	},
}

// TestStoredBeforeTheRule checks that a Rollout which was stored before a rule existed can be
// changed in other fields of its spec and can lose its finalizers, in both API versions. A change
// of the field that breaks the rule must correct it.
func TestStoredBeforeTheRule(t *testing.T) {
	t.Parallel()
	for name, test := range offences {
		for _, options := range []validation.Options{beta, alpha} {
			t.Run(name+"/"+options.Version, func(t *testing.T) {
				t.Parallel()
				old := valid()
				old.Finalizers = []string{rollouts.FinalizerRollout}
				test.offend(old)
				if options == beta && len(validation.ValidateRollout(old, alpha)) == 0 && len(validation.ValidateRollout(old, beta)) == 0 {
					t.Fatal("the rule is not broken")
				}
				elsewhere := old.DeepCopy()
				elsewhere.Spec.Strategy.Paused, elsewhere.Finalizers = true, nil
				if errs := validation.ValidateRolloutUpdate(elsewhere, old, options); len(errs) > 0 {
					t.Errorf("a change elsewhere was refused: %v", errs)
				}
				if test.change == nil || len(validation.ValidateRollout(old, options)) == 0 {
					return
				}
				changed := old.DeepCopy()
				test.change(changed)
				want := test.want
				if options == alpha {
					want = strings.Replace(want, "spec.workloadRef", "spec.objectRef.workloadRef", 1)
					want = strings.Replace(want, ".traffic:", ".weight:", 1)
				}
				if diff := cmp.Diff([]string{want}, render(validation.ValidateRolloutUpdate(changed, old, options))); diff != "" {
					t.Errorf("a change of the part: (-want +got)\n%s", diff)
				}
			})
		}
	}
}

// TestOtherKindsStoredBeforeTheRule checks the same for the other kinds.
func TestOtherKindsStoredBeforeTheRule(t *testing.T) {
	t.Parallel()
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: "1"}
	batch := &rollouts.BatchRelease{ObjectMeta: meta, Spec: rollouts.BatchReleaseSpec{Plan: rollouts.ReleasePlan{
		Batches: []rollouts.Batch{{CanaryReplicas: *percent("few")}}, RollingStyle: "Red",
	}}}
	elsewhere, changed := batch.DeepCopy(), batch.DeepCopy()
	elsewhere.Spec.Plan.BatchPartition = new(int32(0))
	changed.Spec.Plan.RollingStyle = "Green"

	route := validRouting()
	route.Spec.ObjectRef[0].Service, route.Spec.Strategy.Weight = "", new(int32(101))
	routeElsewhere, routeChanged := route.DeepCopy(), route.DeepCopy()
	routeElsewhere.Spec.ObjectRef[0].GracePeriodSeconds = 5
	routeChanged.Spec.Strategy.Weight = new(int32(102))

	for name, test := range map[string]struct {
		errs field.ErrorList
		want []string
	}{
		"a batch elsewhere":   {errs: validation.ValidateBatchReleaseUpdate(elsewhere, batch)},
		"a batch":             {errs: validation.ValidateBatchReleaseUpdate(changed, batch), want: []string{"spec.releasePlan.rollingStyle: Unsupported value"}},
		"a routing elsewhere": {errs: validation.ValidateTrafficRoutingUpdate(routeElsewhere, route)},
		"a routing":           {errs: validation.ValidateTrafficRoutingUpdate(routeChanged, route), want: []string{"spec.strategy.weight: Invalid value"}},
	} {
		if diff := cmp.Diff(test.want, render(test.errs)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// TestStatusStoredBeforeTheRule checks that a stored status with both canaryStatus and
// blueGreenStatus does not block later writes.
func TestStatusStoredBeforeTheRule(t *testing.T) {
	t.Parallel()
	old := valid()
	old.Status = rollouts.RolloutStatus{Canary: &rollouts.Progress{State: "Gone", NextStepIndex: 9}, BlueGreen: &rollouts.Progress{}}
	r := old.DeepCopy()
	r.Status.Message = "on it"
	if errs := validation.ValidateRolloutStatusUpdate(r, old, beta); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
}

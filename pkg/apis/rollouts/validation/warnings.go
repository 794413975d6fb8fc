// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// RolloutWarnings are the warnings about a valid Rollout.
func RolloutWarnings(r *rollouts.Rollout, o Options) []string {
	var warnings []string
	if !o.EnforcePartitionPercentLimit {
		for _, over := range overLimit(&r.Spec, o) {
			warnings = append(warnings, fmt.Sprintf("%s: %s: %s", over.path, over.replicas, over.message))
		}
	}
	return slices.Concat(warnings, decreasingTraffic(&r.Spec, o), unroutedStep(&r.Spec, o))
}

// unroutedStep finds the first step that sends requests to the new revision in a plan without a
// route. In v1alpha1 a weight is also a number of pods, and makes sense without one.
func unroutedStep(s *rollouts.RolloutSpec, o Options) []string {
	style, release := s.Strategy.Active()
	if release == nil || len(release.TrafficRoutings) > 0 || release.TrafficRouting() != "" {
		return nil
	}
	strategy := field.NewPath("spec", "strategy", style.Key())
	for i := range release.Steps {
		step, what := &release.Steps[i], ""
		switch {
		case len(step.Matches) > 0:
			what = "matches"
		case step.Traffic != nil && !o.older():
			what = o.traffic()
		default:
			continue
		}
		return []string{fmt.Sprintf("%s: no requests are routed, because the plan has neither trafficRoutings nor a TrafficRouting; name the Service and its route in %s",
			strategy.Child("steps").Index(i).Child(what), strategy.Child("trafficRoutings"))}
	}
	return nil
}

// excess is a step that upgrades more than the limit while it routes traffic.
type excess struct {
	path              *field.Path
	replicas, message string
}

// overLimit finds the steps that leave too few stable pods for the traffic that these
// still get. A step of 100% intentionally leaves none.
func overLimit(s *rollouts.RolloutSpec, o Options) []excess {
	_, release := s.Strategy.Active()
	if release == nil || rollouts.StyleFor(&s.Strategy, s.WorkloadRef) != rollouts.StylePartition {
		return nil
	}
	var found []excess
	for i := range release.Steps {
		step := &release.Steps[i]
		share, ok := percentOf(step.Replicas)
		if !ok || !step.AsksForTraffic() || share <= o.percentLimit() || share == 100 {
			continue
		}
		found = append(found, excess{
			path:     field.NewPath("spec", "strategy", "canary", "steps").Index(i).Child("replicas"),
			replicas: step.Replicas.String(),
			message: fmt.Sprintf("this step also routes traffic, and upgrading more than %d%% of a partitioned workload leaves few pods for the rest of it: use %d%% or less, or 100%%",
				o.percentLimit(), o.percentLimit()),
		})
	}
	return found
}

// decreasingTraffic finds the steps that send less traffic to the new revision than
// the last step with a share of traffic.
func decreasingTraffic(s *rollouts.RolloutSpec, o Options) []string {
	style, release := s.Strategy.Active()
	if release == nil {
		return nil
	}
	steps := field.NewPath("spec", "strategy", style.Key(), "steps")
	var warnings []string
	last := 0
	for i := range release.Steps {
		if release.Steps[i].Traffic == nil {
			continue
		}
		share, ok := percent(*release.Steps[i].Traffic)
		if ok && share < last {
			warnings = append(warnings, fmt.Sprintf("%s: %d%%: the new revision had %d%% before this step, so traffic goes back to the stable one", steps.Index(i).Child(o.traffic()), share, last))
		}
		if ok {
			last = share
		}
	}
	return warnings
}

// FinalizerWarnings are about new finalizers without a domain, since others may use the
// same name. The stored object may be nil.
func FinalizerWarnings(obj, old metav1.Object) []string {
	var warnings []string
	for _, name := range obj.GetFinalizers() {
		if strings.Contains(name, "/") || name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents {
			continue
		}
		if old == nil || !slices.Contains(old.GetFinalizers(), name) {
			warnings = append(warnings, fmt.Sprintf("metadata.finalizers: %q: put a domain before the name, such as example.com/%s", name, name))
		}
	}
	return warnings
}

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

// RolloutWarnings are what a user should know about a Rollout that is accepted.
func RolloutWarnings(r *rollouts.Rollout, o Options) []string {
	var warnings []string
	if !o.EnforcePartitionPercentLimit {
		for _, over := range overLimit(&r.Spec, o) {
			warnings = append(warnings, fmt.Sprintf("%s: %s: %s", over.path, over.replicas, over.message))
		}
	}
	return append(warnings, decreasingTraffic(&r.Spec, o)...)
}

// excess is a step that upgrades more than the limit while it routes traffic.
type excess struct {
	path              *field.Path
	replicas, message string
}

// overLimit finds the steps in which too few stable pods are left for the
// traffic that they still get. A step of 100% has no stable pods by intent.
func overLimit(s *rollouts.RolloutSpec, o Options) []excess {
	_, release := s.Strategy.Active()
	if release == nil || rollouts.StyleFor(&s.Strategy, s.WorkloadRef) != rollouts.StylePartition {
		return nil
	}
	var found []excess
	for i := range release.Steps {
		step := &release.Steps[i]
		share, ok := percentOf(step.Replicas)
		if !ok || !step.Routed() || share <= o.percentLimit() || share == 100 {
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

// decreasingTraffic finds steps that take traffic back from the new revision.
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

// FinalizerWarnings are about the finalizers that the stored object, which may
// be nil, does not have: one without a domain may be that of somebody else.
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

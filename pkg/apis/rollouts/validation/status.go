// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

var stepStates = []rollouts.StepState{
	rollouts.BeforeStepUpgrade, rollouts.StepUpgrade, rollouts.StepTrafficRouting,
	rollouts.StepMetricsAnalysis, rollouts.StepPaused, rollouts.StepReady, rollouts.StepCompleted,
}

// ValidateRolloutStatusUpdate validates a write of the status. It only checks fields
// that have changed, so that an old status never blocks a new one. It takes options as
// the other functions for Rollouts do, and does not need them yet.
func ValidateRolloutStatusUpdate(r, old *rollouts.Rollout, _ Options) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("status")
	if hasBoth(&r.Status) && !hasBoth(&old.Status) {
		errs = append(errs, field.Invalid(path, "canaryStatus and blueGreenStatus", "set only one of canaryStatus and blueGreenStatus"))
	}
	errs = append(errs, validateConditions(r.Status.Conditions, old.Status.Conditions, path.Child("conditions"))...)
	_, release := r.Spec.Strategy.Active()
	steps := 0
	if release != nil {
		steps = len(release.Steps)
	}
	errs = append(errs, validateProgress(r.Status.Canary, old.Status.Canary, steps, path.Child("canaryStatus"))...)
	return append(errs, validateProgress(r.Status.BlueGreen, old.Status.BlueGreen, steps, path.Child("blueGreenStatus"))...)
}

func hasBoth(s *rollouts.RolloutStatus) bool { return s.Canary != nil && s.BlueGreen != nil }

func validateProgress(p, old *rollouts.Progress, steps int, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	if old == nil {
		old = &rollouts.Progress{}
	}
	var errs field.ErrorList
	if p.State != old.State && p.State != "" {
		errs = append(errs, validateOneOf(p.State, stepStates, path.Child("currentStepState"))...)
	}
	// -1 means no further step, and 0 a release that has not begun.
	if next := p.NextStepIndex; next != old.NextStepIndex && (next < -1 || int(next) > steps) {
		errs = append(errs, field.Invalid(path.Child("nextStepIndex"), next, fmt.Sprintf("the plan has the steps 1 to %d", steps)))
	}
	return errs
}

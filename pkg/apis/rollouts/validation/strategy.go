// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strconv"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

const (
	maxSteps   = 50
	maxMatches = 16
)

func validateStrategy(s *rollouts.RolloutSpec, path *field.Path, o Options) field.ErrorList {
	strategy := &s.Strategy
	switch {
	case strategy.Canary == nil && strategy.BlueGreen == nil:
		return field.ErrorList{field.Required(path, "set one of canary and blueGreen")}
	case strategy.Canary != nil && strategy.BlueGreen != nil:
		return field.ErrorList{field.Invalid(path, "canary and blueGreen", "set only one of canary and blueGreen")}
	}
	style, release := strategy.Active()
	path = path.Child(style.Key())
	errs := validateSteps(release.Steps, path.Child("steps"), style, o)
	if o.EnforcePartitionPercentLimit {
		for _, over := range overLimit(s, o) {
			errs = append(errs, field.Invalid(over.path, over.replicas, over.message))
		}
	}
	errs = append(errs, validateTrafficRoutings(release.TrafficRoutings, path.Child("trafficRoutings"))...)
	if name := release.TrafficRouting(); name != "" {
		errs = append(errs, validateName(name, path.Child("trafficRoutingRef"))...)
	}
	errs = append(errs, validateAmount(release.FailureThreshold, path.Child("failureThreshold"))...)
	errs = append(errs, ValidateAnalysis(release.Analysis, len(release.Steps), path.Child("analysis"))...)
	errs = append(errs, validateDeadline(release.ProgressDeadlineSeconds, path.Child("progressDeadlineSeconds"))...)
	return append(errs, validateMetadata(release.PodTemplateMetadata, path.Child("patchPodTemplateMetadata"))...)
}

func validateSteps(steps []rollouts.Step, path *field.Path, style rollouts.Style, o Options) field.ErrorList {
	if len(steps) == 0 {
		return field.ErrorList{field.Required(path, "give at least one step")}
	}
	if len(steps) > maxSteps && !o.older() {
		return field.ErrorList{field.TooMany(path, len(steps), maxSteps)}
	}
	var errs field.ErrorList
	for i := range steps {
		errs = append(errs, validateStep(&steps[i], path.Index(i), style, o)...)
		if i > 0 && decreases(steps[i-1].Replicas, steps[i].Replicas) {
			errs = append(errs, field.Invalid(path.Index(i).Child("replicas"), steps[i].Replicas.String(),
				fmt.Sprintf("a step cannot have fewer than the step before it: use %s or more", steps[i-1].Replicas)))
		}
	}
	return errs
}

func validateStep(step *rollouts.Step, path *field.Path, style rollouts.Style, o Options) field.ErrorList {
	errs := validateReplicas(step.Replicas, path.Child("replicas"))
	errs = append(errs, validateTraffic(step.Traffic, path.Child(o.traffic()), style, o)...)
	if d := step.Pause.Duration; d != nil && *d < 0 {
		errs = append(errs, field.Invalid(path.Child("pause", "duration"), *d, "use seconds, 0 or more; without a duration the step waits for an approval"))
	}
	if len(step.Matches) > maxMatches && !o.older() {
		return append(errs, field.TooMany(path.Child("matches"), len(step.Matches), maxMatches))
	}
	for i := range step.Matches {
		errs = append(errs, validateMatch(&step.Matches[i], path.Child("matches").Index(i), o)...)
	}
	return append(errs, validateHeaderModifier(step.RequestHeaderModifier, path.Child("requestHeaderModifier"))...)
}

func validateReplicas(replicas *intstr.IntOrString, path *field.Path) field.ErrorList {
	if replicas == nil {
		return field.ErrorList{field.Required(path, `give how many pods run the new revision at the end of the step, such as 1 or "20%"`)}
	}
	if n, ok := amountOf(replicas); ok && n > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, replicas.String(), `use a number above 0, or a percentage above "0%" and up to "100%"`)}
}

// validateTraffic accepts a share of nothing in a blue-green step, and in one
// written with a weight.
func validateTraffic(traffic *string, path *field.Path, style rollouts.Style, o Options) field.ErrorList {
	if traffic == nil {
		return nil
	}
	share, ok := percent(*traffic)
	if ok && (share > 0 || o.older() || style == rollouts.StyleBlueGreen) {
		return nil
	}
	switch {
	case o.older():
		return field.ErrorList{field.Invalid(path, strings.TrimSuffix(*traffic, "%"), "use a weight from 0 to 100")}
	case style == rollouts.StyleBlueGreen:
		return field.ErrorList{field.Invalid(path, *traffic, `use a percentage from "0%" to "100%"`)}
	default:
		return field.ErrorList{field.Invalid(path, *traffic, `use a percentage above "0%" and up to "100%"`)}
	}
}

// validateAmount accepts nil, and any number or percentage of pods.
func validateAmount(amount *intstr.IntOrString, path *field.Path) field.ErrorList {
	if amount == nil {
		return nil
	}
	if _, ok := amountOf(amount); ok {
		return nil
	}
	return field.ErrorList{field.Invalid(path, amount.String(), `use a number, 0 or more, or a percentage from "0%" to "100%"`)}
}

func validateDeadline(seconds *int32, path *field.Path) field.ErrorList {
	if seconds == nil || *seconds > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *seconds, "use seconds, 1 or more; remove the field to use the workload's own deadline, or use 2147483647 for no deadline")}
}

func validateMetadata(m *rollouts.PodTemplateMetadata, path *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	var errs field.ErrorList
	if n := len(m.Labels); n > maxKeys {
		errs = append(errs, field.TooMany(path.Child("labels"), n, maxKeys))
	}
	if n := len(m.Annotations); n > maxKeys {
		errs = append(errs, field.TooMany(path.Child("annotations"), n, maxKeys))
	}
	errs = append(errs, metavalidation.ValidateLabels(m.Labels, path.Child("labels"))...)
	return append(errs, apivalidation.ValidateAnnotations(m.Annotations, path.Child("annotations"))...)
}

// decreases reports whether to is less than from. It does not compare a number with a
// percentage, since the result depends on the size of the workload.
func decreases(from, to *intstr.IntOrString) bool {
	if from == nil || to == nil || from.Type != to.Type {
		return false
	}
	if from.Type == intstr.Int {
		return to.IntVal < from.IntVal
	}
	a, okA := percentOf(from)
	b, okB := percentOf(to)
	return okA && okB && b < a
}

// amountOf reads a number, 0 or more, or a percentage.
func amountOf(v *intstr.IntOrString) (int, bool) {
	if v.Type == intstr.Int {
		return v.IntValue(), v.IntVal >= 0
	}
	return percentOf(v)
}

// percentOf reads a percentage from "0%" to "100%".
func percentOf(v *intstr.IntOrString) (int, bool) {
	if v == nil || v.Type != intstr.String {
		return 0, false
	}
	return percent(v.StrVal)
}

func percent(s string) (int, bool) {
	digits, ok := strings.CutSuffix(s, "%")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), err == nil && n <= 100
}

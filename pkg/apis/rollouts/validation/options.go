// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// ValidateDecisionOptions validates the options that every verb has.
func ValidateDecisionOptions(o *rollouts.DecisionOptions) field.ErrorList {
	errs := validateText(field.NewPath("reason"), o.Reason, rollouts.MaxReason)
	errs = append(errs, validateText(field.NewPath("requestID"), o.RequestID, rollouts.MaxRequestID)...)
	if o.Expect != nil && o.Expect.Step != nil && *o.Expect.Step < 1 {
		errs = append(errs, field.Invalid(field.NewPath("expect", "step"), *o.Expect.Step, "steps are counted from 1"))
	}
	return errs
}

// validateText validates the text of a user that others read, for example in a terminal.
func validateText(path *field.Path, text string, most int) field.ErrorList {
	var errs field.ErrorList
	if utf8.RuneCountInString(text) > most {
		errs = append(errs, field.TooLongMaxLength(path, "", most))
	}
	if r, ok := rollouts.Hidden(text); ok {
		errs = append(errs, field.Invalid(path, rollouts.Clean(text, most), fmt.Sprintf(
			"remove %U: use one line of visible text, without control and direction characters", r)))
	}
	return errs
}

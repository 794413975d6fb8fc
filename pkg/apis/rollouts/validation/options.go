// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

const (
	maxReason    = 1024
	maxRequestID = 63
)

// ValidateDecisionOptions judges what every verb takes.
func ValidateDecisionOptions(o *rollouts.DecisionOptions) field.ErrorList {
	var errs field.ErrorList
	if utf8.RuneCountInString(o.Reason) > maxReason {
		errs = append(errs, field.TooLongMaxLength(field.NewPath("reason"), "", maxReason))
	}
	if utf8.RuneCountInString(o.RequestID) > maxRequestID {
		errs = append(errs, field.TooLongMaxLength(field.NewPath("requestID"), o.RequestID, maxRequestID))
	}
	if o.Expect != nil && o.Expect.Step != nil && *o.Expect.Step < 1 {
		errs = append(errs, field.Invalid(field.NewPath("expect", "step"), *o.Expect.Step, "steps are counted from 1"))
	}
	return errs
}

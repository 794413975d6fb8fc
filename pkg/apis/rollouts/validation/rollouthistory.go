// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// ValidateRolloutHistory validates a new RolloutHistory. Its copies are of objects
// that were accepted elsewhere. A name is empty if there was no such object.
func ValidateRolloutHistory(h *rollouts.RolloutHistory) field.ErrorList {
	return apivalidation.ValidateObjectMeta(&h.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

// ValidateRolloutHistoryUpdate validates a change.
func ValidateRolloutHistoryUpdate(h, old *rollouts.RolloutHistory) field.ErrorList {
	return apivalidation.ValidateObjectMetaUpdate(&h.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
}

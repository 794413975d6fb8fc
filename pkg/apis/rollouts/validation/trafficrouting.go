// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// ValidateTrafficRouting validates a new TrafficRouting.
func ValidateTrafficRouting(r *rollouts.TrafficRouting) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&r.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateTrafficRoutingSpec(&r.Spec, field.NewPath("spec"))...)
}

// ValidateTrafficRoutingUpdate validates a change. Fields that do not change stay accepted.
func ValidateTrafficRoutingUpdate(r, old *rollouts.TrafficRouting) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&r.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	path := field.NewPath("spec")
	// The controller needs the references to find and to restore the objects that it has changed.
	if old.Status.LastUpdateTime != nil && !equality.Semantic.DeepEqual(r.Spec.ObjectRef, old.Spec.ObjectRef) {
		errs = append(errs, field.Forbidden(path.Child("objectRef"), waitForEnd))
	}
	return append(errs, newErrors(validateTrafficRoutingSpec(&r.Spec, path), validateTrafficRoutingSpec(&old.Spec, path))...)
}

func validateTrafficRoutingSpec(s *rollouts.TrafficRoutingSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	refs := path.Child("objectRef")
	if len(s.ObjectRef) == 0 {
		errs = append(errs, field.Required(refs, "reference a Service and the router of its requests"))
	}
	for i := range s.ObjectRef {
		errs = append(errs, validateTrafficRouting(&s.ObjectRef[i], refs.Index(i))...)
	}
	strategy := path.Child("strategy")
	if w := s.Strategy.Weight; w != nil && (*w < 0 || *w > 100) {
		errs = append(errs, field.Invalid(strategy.Child("weight"), *w, "use a percentage from 0 to 100"))
	}
	for i := range s.Strategy.Matches {
		// The kind exists in v1alpha1 only.
		errs = append(errs, validateMatch(&s.Strategy.Matches[i], strategy.Child("matches").Index(i), Options{Version: v1alpha1})...)
	}
	return append(errs, validateHeaderModifier(s.Strategy.RequestHeaderModifier, strategy.Child("requestHeaderModifier"))...)
}

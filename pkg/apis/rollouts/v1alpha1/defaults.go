// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The defaults themselves stand as +default beside the fields, so that the
// published schema and the code cannot differ.

func addFieldLabels(scheme *runtime.Scheme) error {
	selectors := map[string]runtime.FieldLabelConversionFunc{
		"Rollout": rollouts.SelectRollout, "BatchRelease": rollouts.SelectMetadata,
		"TrafficRouting": rollouts.SelectMetadata, "RolloutHistory": rollouts.SelectMetadata,
	}
	for kind, selector := range selectors {
		if err := scheme.AddFieldLabelConversionFunc(SchemeGroupVersion.WithKind(kind), selector); err != nil {
			return err
		}
	}
	return nil
}

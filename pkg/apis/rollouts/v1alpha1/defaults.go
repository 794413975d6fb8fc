// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// The defaults themselves stand as +default beside the fields, so that the
// published schema and the code cannot differ.

func addFieldLabels(scheme *runtime.Scheme) error {
	for _, kind := range []string{"Rollout", "BatchRelease", "TrafficRouting", "RolloutHistory"} {
		if err := scheme.AddFieldLabelConversionFunc(SchemeGroupVersion.WithKind(kind), fieldLabel); err != nil {
			return err
		}
	}
	return nil
}

// fieldLabel accepts the field selectors that custom resources have.
func fieldLabel(label, value string) (string, string, error) {
	switch label {
	case "metadata.name", "metadata.namespace":
		return label, value, nil
	default:
		return "", "", fmt.Errorf("field selector %q is not supported: use metadata.name or metadata.namespace", label)
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Field selectors of Rollouts in addition to the name and the namespace. Both API versions have the same names.
const (
	FieldWorkloadKind = "spec.workloadRef.kind"
	FieldWorkloadName = "spec.workloadRef.name"
	FieldPhase        = "status.phase"
	FieldStepState    = "status.currentStepState"
)

// commonFields are the field selectors of every kind.
var commonFields = []string{"metadata.name", "metadata.namespace"}

// selectors has the functions that accept the field selectors of each kind.
var selectors = map[string]runtime.FieldLabelConversionFunc{
	"Rollout":        SelectRollout,
	"BatchRelease":   selectMetadata,
	"TrafficRouting": selectMetadata,
	"RolloutHistory": selectMetadata,
}

// AddFieldSelectors registers the field selectors of the kinds that the version has.
func AddFieldSelectors(scheme *runtime.Scheme, version schema.GroupVersion) error {
	for kind, selector := range selectors {
		if gvk := version.WithKind(kind); scheme.Recognizes(gvk) {
			if err := scheme.AddFieldLabelConversionFunc(gvk, selector); err != nil {
				return err
			}
		}
	}
	return nil
}

func selectMetadata(label, value string) (string, string, error) {
	return acceptSelector(label, value, commonFields)
}

// SelectRollout accepts the field selectors of Rollouts.
func SelectRollout(label, value string) (string, string, error) {
	return acceptSelector(label, value, append([]string{FieldWorkloadKind, FieldWorkloadName, FieldPhase, FieldStepState}, commonFields...))
}

func acceptSelector(label, value string, known []string) (string, string, error) {
	if slices.Contains(known, label) {
		return label, value, nil
	}
	return "", "", fmt.Errorf("field selector %q is not supported: use %s", label, strings.Join(known, ", "))
}

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

// The fields of a Rollout, beyond its name and namespace, that lists and watches
// can select by. Both versions know them by these names.
const (
	FieldWorkloadKind = "spec.workloadRef.kind"
	FieldWorkloadName = "spec.workloadRef.name"
	FieldPhase        = "status.phase"
	FieldStepState    = "status.currentStepState"
)

// metadataFields are those of every kind.
var metadataFields = []string{"metadata.name", "metadata.namespace"}

// selectors accept what lists of a kind can be selected by.
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
	return selectOf(label, value, metadataFields)
}

// SelectRollout accepts the field selectors of Rollouts.
func SelectRollout(label, value string) (string, string, error) {
	return selectOf(label, value, append([]string{FieldWorkloadKind, FieldWorkloadName, FieldPhase, FieldStepState}, metadataFields...))
}

func selectOf(label, value string, known []string) (string, string, error) {
	if slices.Contains(known, label) {
		return label, value, nil
	}
	return "", "", fmt.Errorf("field selector %q is not supported: use %s", label, strings.Join(known, ", "))
}

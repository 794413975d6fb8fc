// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"fmt"
	"slices"
	"strings"
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

// SelectMetadata accepts the field selectors that every kind has.
func SelectMetadata(label, value string) (string, string, error) {
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

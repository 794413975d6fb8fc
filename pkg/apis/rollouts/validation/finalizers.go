// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FinalizerWarnings are about the finalizers that the stored object, which may
// be nil, does not have: one without a domain may be that of somebody else.
func FinalizerWarnings(obj, old metav1.Object) []string {
	var warnings []string
	for _, name := range obj.GetFinalizers() {
		if strings.Contains(name, "/") || name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents {
			continue
		}
		if old == nil || !slices.Contains(old.GetFinalizers(), name) {
			warnings = append(warnings, fmt.Sprintf("metadata.finalizers: %q: put a domain before the name, such as example.com/%s", name, name))
		}
	}
	return warnings
}

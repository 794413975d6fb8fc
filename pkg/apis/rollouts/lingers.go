// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Lingers says what keeps an object that was deleted.
func Lingers(kind string, o metav1.Object) string {
	return fmt.Sprintf("%s %s is being deleted, and stays until somebody takes these finalizers off: %s", kind, o.GetName(), FinalizersOf(o))
}

// FinalizersOf are those of an object, as a message has them.
func FinalizersOf(o metav1.Object, but ...string) string {
	var names []string
	for _, f := range o.GetFinalizers() {
		if !slices.Contains(but, f) {
			names = append(names, f)
		}
	}
	return Clean(strings.Join(names, ", "), MaxCondition/4)
}

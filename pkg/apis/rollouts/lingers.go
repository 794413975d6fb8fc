// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Lingers says what keeps an object that was deleted.
func Lingers(kind string, o metav1.Object) string {
	going := fmt.Sprintf("%s %s is being deleted", kind, o.GetName())
	if len(o.GetFinalizers()) > 0 {
		going += ", and stays until somebody takes these finalizers off: " + FinalizersOf(o)
	}
	return going
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

// Taken says whose an object is that has the name of one to be made.
func Taken(kind string, o metav1.Object) string {
	refs := o.GetOwnerReferences()
	if len(refs) == 0 {
		return fmt.Sprintf("%s %s exists and belongs to no release; rename it, or delete it if nobody needs it", kind, o.GetName())
	}
	whose := refs[0]
	if ref := metav1.GetControllerOf(o); ref != nil {
		whose = *ref
	}
	return fmt.Sprintf("%s %s exists and belongs to %s %s (uid %s); wait until that has ended, or give each its own %s",
		kind, o.GetName(), Plainly(whose.Kind), Plainly(whose.Name), Plainly(string(whose.UID)), kind)
}

// longest is how much of a name a message has.
const longest = 253

// Plainly is a name as a message may have it: who writes an object writes the names
// on it, and they may write anything.
func Plainly(name string) string {
	if quoted := strconv.Quote(name); len(name) > longest || len(quoted) > len(name)+2 {
		return fmt.Sprintf("%.*q", longest, name)
	}
	return name
}

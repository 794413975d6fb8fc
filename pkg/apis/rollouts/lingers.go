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

// Lingers returns the message about an object that is being deleted.
func Lingers(kind string, o metav1.Object) string {
	going := fmt.Sprintf("%s %s is being deleted", kind, o.GetName())
	if len(o.GetFinalizers()) > 0 {
		going += ", and stays until a user removes these finalizers: " + FinalizersOf(o)
	}
	return going
}

// FinalizersOf lists the finalizers of an object for a message, except for those in but.
func FinalizersOf(o metav1.Object, but ...string) string {
	names := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(name string) bool { return slices.Contains(but, name) })
	return Clean(strings.Join(names, ", "), MaxCondition/4)
}

// Taken returns the message about an object that already has the name of a new object. The message names the owner. After
// a restore, the store may lack an owner of Weir's group; then somebody has to delete the object.
func Taken(kind string, o metav1.Object) string {
	refs := o.GetOwnerReferences()
	if len(refs) == 0 {
		return fmt.Sprintf("%s %s exists, and Weir needs this name; delete it, or recreate it under another name", kind, o.GetName())
	}
	whose := refs[0]
	if ref := metav1.GetControllerOf(o); ref != nil {
		whose = *ref
	}
	taken := fmt.Sprintf("%s %s exists and belongs to %s %s (uid %s); wait until its release ends",
		kind, o.GetName(), Plainly(whose.Kind), Plainly(whose.Name), Plainly(string(whose.UID)))
	if kind != "deployment" { // Weir chooses its name
		taken += ", or use a separate " + kind + " for each Rollout"
	}
	if !strings.HasPrefix(whose.APIVersion, GroupName+"/") {
		return taken
	}
	unused := ", and no route leads to its pods"
	if kind == "ingress" {
		unused = "" // it is the route
	}
	return taken + fmt.Sprintf(". If no %s has this uid, as after a restore%s, delete it: kubectl delete %s %s -n %s",
		Plainly(whose.Kind), unused, kind, o.GetName(), o.GetNamespace())
}

// maxName is the maximum length of a name in a message.
const maxName = 253

// Plainly returns a name for a message. It quotes and cuts unusual names, since the
// writer of an object can put any text there.
func Plainly(name string) string {
	if quoted := strconv.Quote(name); len(name) > maxName || len(quoted) > len(name)+2 {
		return fmt.Sprintf("%.*q", maxName, name)
	}
	return name
}

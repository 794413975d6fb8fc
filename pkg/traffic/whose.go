// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Several Rollouts may name one router. What is made beside it belongs to the one
// whose uid it has; a router that is routed in place, to the one on its record, if
// the store knows that.
// The others wait, and say for whom.

// made reports whether an object was made for the owner, by us or by whoever
// served the API before. The store knows it, whatever became of its owner references.
// Anything else of that name belongs to somebody.
func (o Objects) made(obj metav1.Object) bool {
	return o.Owner.UID != "" && slices.ContainsFunc(obj.GetOwnerReferences(), o.isOwner) ||
		obj.GetUID() != "" && slices.Contains(o.Made, obj.GetUID())
}

// whose are the uids of what was made for the owner, and whose an object is that has
// the name of such a one, where a release has taken what leads to the Service.
func (o Objects) whose() (made []types.UID, rival string) {
	look := func(kind string, obj metav1.Object) {
		switch {
		case o.made(obj):
			if uid := obj.GetUID(); uid != "" {
				made = append(made, uid)
			}
		case o.Held && rival == "":
			rival = rollouts.Taken(kind, obj)
		}
	}
	if o.CanaryService != nil {
		look("service", o.CanaryService)
	}
	for _, r := range o.Routers {
		if r.Beside != nil {
			look("ingress", r.Beside)
		}
	}
	return made, rival
}

// leaves reports whether an object is being deleted. Finalizers of others may keep it
// for ever, so that nobody waits for its end.
func leaves(obj metav1.Object) bool { return obj.GetDeletionTimestamp() != nil }

func (o Objects) isOwner(ref metav1.OwnerReference) bool { return ref.UID == o.Owner.UID }

// owned returns references of an object with the owner as it is spelled now. There is
// one controller.
func (o Objects) owned(refs []metav1.OwnerReference) []metav1.OwnerReference {
	theirs := func(ref metav1.OwnerReference) bool {
		return o.isOwner(ref) || ref.Controller != nil && *ref.Controller
	}
	return append(slices.DeleteFunc(slices.Clone(refs), theirs), o.Owner)
}

// who names the owner on the record of a router. A name is enough: of two that
// exist in a namespace it tells which, and one that was made again takes back
// what the one before has left.
func (o Objects) who() string { return strings.ToLower(o.Owner.Kind) + "/" + o.Owner.Name }

// routedByOther says for whom else a router is routed in place. Whoever may write
// the router may write that on it, so that it counts only where the store knows
// whom it names.
func (o Objects) routedByOther(r Router, obj metav1.Object) error {
	record := recordOf(obj)
	if record == nil || record.For == o.who() || !o.routes(record.For) {
		return nil
	}
	return fmt.Errorf("%s is routed for %s; wait until that has ended, or give each its own", r.path(), rollouts.Plainly(record.For))
}

// routable is the object as JSON, unless it is routed for somebody else.
func (o Objects) routable(r Router) (*unstructured.Unstructured, error) {
	obj, err := readable(r)
	if err == nil {
		err = o.routedByOther(r, obj)
	}
	return obj, err
}

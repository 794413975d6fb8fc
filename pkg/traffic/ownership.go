// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Several Rollouts may name one Service or router, which serves one release at a
// time. A Service belongs to a workload only if it selects the pods of the workload.
// The store and the workload decide both, never the Service or the router itself.
// What is made beside a router belongs to the owner whose uid it has; a router that
// is routed in place, to the owner on its record if the store knows that owner. All
// other Rollouts wait, and name the one that they wait for.

// Other is another release in the store that routes by one of the objects.
type Other struct {
	// Who is such as rollout/other, and What such as service/web.
	Who, What string
	// First reports whether it has taken the object before this release.
	First bool
}

func (o Other) first() bool { return o.First }

// Taken reports whether another release has taken some of the objects first.
func (o Objects) Taken() bool { return slices.ContainsFunc(o.Others, Other.first) }

// barred returns why this release may not change Service and routers; empty if it may.
func (o Objects) barred() string {
	if i := slices.IndexFunc(o.Others, Other.first); i >= 0 {
		return routedFor(o.Others[i].What, o.Others[i].Who)
	}
	if o.Service == nil || o.Shared || len(o.Service.Spec.Selector) == 0 || o.Template == nil || o.selects() {
		return ""
	}
	return fmt.Sprintf("service %s selects %q, and not the pods of the workload; name a service that selects them",
		o.Service.Name, labels.FormatLabels(o.selector()))
}

func routedFor(what, other string) string {
	return fmt.Sprintf("%s is routed for %s; wait until that has ended, or give each its own", what, other)
}

// selects reports whether the stable Service selects pods of the workload, of
// whichever revision.
func (o Objects) selects() bool {
	selector := o.selector()
	return len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(o.Template))
}

// selector is the selector of the stable Service without the revision.
func (o Objects) selector() labels.Set {
	if o.Service == nil {
		return nil
	}
	selector := maps.Clone(o.Service.Spec.Selector)
	delete(selector, o.RevisionKey)
	return selector
}

// pinned is the revision that the stable Service selects, where the Service is of
// this workload, or was until its owner has given it away.
func (o Objects) pinned() string {
	if o.Service == nil || o.Taken() {
		return ""
	}
	at := o.Service.Spec.Selector[o.RevisionKey]
	if o.selects() || at == o.StableRevision && (o.Held || o.Template == nil) {
		return at
	}
	return ""
}

// writerOf is the field manager that wrote the selector of a Service. The selector is
// atomic, so there is one.
func writerOf(service *corev1.Service) string {
	i := slices.IndexFunc(service.ManagedFields, WroteSelector)
	if i < 0 {
		return ""
	}
	return rollouts.Plainly(service.ManagedFields[i].Manager)
}

// WroteSelector reports whether an entry of a Service is about its selector.
func WroteSelector(by metav1.ManagedFieldsEntry) bool {
	return by.FieldsV1 != nil && strings.Contains(by.FieldsV1.GetRawString(), `"f:selector"`)
}

// made reports whether an object was made for the owner, by Weir or by OpenKruise
// before it. The store keeps its uid, so lost owner references do not matter.
// Any other object of that name belongs to somebody else.
func (o Objects) made(obj metav1.Object) bool {
	return o.Owner.UID != "" && slices.ContainsFunc(obj.GetOwnerReferences(), o.isOwner) ||
		obj.GetUID() != "" && slices.Contains(o.Made, obj.GetUID())
}

// madeObjects returns the uids of the objects that were made for the owner. rival says
// to whom an object belongs that has the name of one to be made, where the owner's
// release has taken the Service.
func (o Objects) madeObjects() (made []types.UID, rival string) {
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

// terminating reports whether an object is being deleted. Finalizers of others may
// keep it for ever, so nothing waits for its end.
func terminating(obj metav1.Object) bool { return obj.GetDeletionTimestamp() != nil }

func (o Objects) isOwner(ref metav1.OwnerReference) bool { return ref.UID == o.Owner.UID }

// owned returns references of an object with the owner as it is spelled now. There is
// one controller.
func (o Objects) owned(refs []metav1.OwnerReference) []metav1.OwnerReference {
	theirs := func(ref metav1.OwnerReference) bool {
		return o.isOwner(ref) || ref.Controller != nil && *ref.Controller
	}
	return append(slices.DeleteFunc(slices.Clone(refs), theirs), o.Owner)
}

// canaryMeta is the metadata of what is made for the owner beside an object. Records
// on the object are about it alone, and are left out.
func (o Objects) canaryMeta(of metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:       of.GetNamespace(),
		Name:            of.GetName() + rollouts.CanarySuffix,
		Labels:          copied(of.GetLabels()),
		Annotations:     copied(of.GetAnnotations()),
		OwnerReferences: []metav1.OwnerReference{o.Owner},
	}
}

// owned adds the label of Deployments and Ingresses that Weir creates for a release. It may change
// the map.
func owned(labels map[string]string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[rollouts.LabelOwnedByRelease] = "true"
	return labels
}

// ownerName names the owner on the record of a router. A name is enough: it is unique
// in the namespace, and an owner that was created again restores what the one before
// has left.
func (o Objects) ownerName() string { return strings.ToLower(o.Owner.Kind) + "/" + o.Owner.Name }

// routable is the object as JSON, unless it is routed in place for another owner.
// Whoever may write the router may write that name on it, so a name counts only where
// the store knows an owner of that name.
func (o Objects) routable(r Router) (*unstructured.Unstructured, error) {
	obj, err := readable(r)
	if err != nil {
		return nil, err
	}
	record := recordOf(obj)
	if record == nil || record.For == o.ownerName() {
		return obj, nil
	}
	if !slices.ContainsFunc(o.Others, func(other Other) bool { return strings.EqualFold(other.Who, record.For) }) {
		return obj, nil
	}
	return nil, errors.New(routedFor(r.path(), rollouts.Plainly(record.For)))
}

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

// Several Rollouts may name the same Service or router, which serves one release at a time. A
// Service belongs to a workload only if it selects the pods of the workload. The store and the
// workload decide both, never the Service or the router: users who can write a router are not
// trusted to name its owner.
//
// An object that Weir created belongs to the owner whose UID it has. A router that is edited in
// place belongs to the owner in its route record, if the store knows this owner. All other Rollouts
// wait, and their message names the Rollout that they wait for.

// OtherRelease is another release in the store that uses one of the objects.
type OtherRelease struct {
	// Release is for example rollout/other, and Object is for example service/web.
	Release, Object string
	// AcquiredFirst reports whether the other release acquired the object before this release.
	AcquiredFirst bool
}

func (o OtherRelease) acquiredFirst() bool { return o.AcquiredFirst }

// AcquiredByOther reports whether another release acquired one of the objects before this release.
func (o Objects) AcquiredByOther() bool {
	return slices.ContainsFunc(o.OtherReleases, OtherRelease.acquiredFirst)
}

// blockedReason returns why this release must not change its Service and routers; empty if it may.
func (o Objects) blockedReason() string {
	if i := slices.IndexFunc(o.OtherReleases, OtherRelease.acquiredFirst); i >= 0 {
		return conflictMessage(o.OtherReleases[i].Object, o.OtherReleases[i].Release)
	}
	if o.Service == nil || o.Shared || len(o.Service.Spec.Selector) == 0 || o.TemplateLabels == nil || o.serviceSelectsWorkload() {
		return ""
	}
	return fmt.Sprintf("service %s selects %q, which does not match the pods of the workload; name a Service that selects them",
		o.Service.Name, labels.FormatLabels(o.selectorWithoutRevision()))
}

func conflictMessage(what, other string) string {
	return fmt.Sprintf("%s is in use by %s; wait until its release ends, or use a separate Service and router for each Rollout", what, other)
}

// serviceSelectsWorkload reports whether the stable Service selects pods of the workload, of any
// revision.
func (o Objects) serviceSelectsWorkload() bool {
	selector := o.selectorWithoutRevision()
	return len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(o.TemplateLabels))
}

// selectorWithoutRevision returns the selector of the stable Service without the revision label.
func (o Objects) selectorWithoutRevision() labels.Set {
	if o.Service == nil {
		return nil
	}
	selector := maps.Clone(o.Service.Spec.Selector)
	delete(selector, o.RevisionKey)
	return selector
}

// pinnedRevision returns the revision that the stable Service selects; empty if the Service does
// not belong to this workload. A Service that selects the stored stable revision still belongs to
// the workload after its owner changed the rest of the selector during the release, and after the
// workload was deleted.
func (o Objects) pinnedRevision() string {
	if o.Service == nil || o.AcquiredByOther() {
		return ""
	}
	at := o.Service.Spec.Selector[o.RevisionKey]
	if o.serviceSelectsWorkload() || at == o.StableRevision && (o.AcquiredByOwner || o.TemplateLabels == nil) {
		return at
	}
	return ""
}

// selectorManager returns the field manager that wrote the selector of a Service. The selector is
// an atomic map, so it has one manager.
func selectorManager(service *corev1.Service) string {
	i := slices.IndexFunc(service.ManagedFields, OwnsSelector)
	if i < 0 {
		return ""
	}
	return rollouts.Plainly(service.ManagedFields[i].Manager)
}

// OwnsSelector reports whether a managed-fields entry of a Service covers the selector.
func OwnsSelector(by metav1.ManagedFieldsEntry) bool {
	return by.FieldsV1 != nil && strings.Contains(by.FieldsV1.GetRawString(), `"f:selector"`)
}

// createdForOwner reports whether Weir, or OpenKruise before a migration, created an object for the
// owner. The store keeps the UID of the object, so a lost owner reference does not matter. Any
// other object with the same name belongs to somebody else.
func (o Objects) createdForOwner(obj metav1.Object) bool {
	return o.Owner.UID != "" && slices.ContainsFunc(obj.GetOwnerReferences(), o.isOwner) ||
		obj.GetUID() != "" && slices.Contains(o.CreatedUIDs, obj.GetUID())
}

// createdObjects returns the UIDs of the objects that were created for the owner. rival describes
// an object of somebody else that has the name of one of these objects. It is empty before the
// release of the owner has acquired the Service.
func (o Objects) createdObjects() (made []types.UID, rival string) {
	look := func(kind string, obj metav1.Object) {
		switch {
		case o.createdForOwner(obj):
			if uid := obj.GetUID(); uid != "" {
				made = append(made, uid)
			}
		case o.AcquiredByOwner && rival == "":
			rival = rollouts.Taken(kind, obj)
		}
	}
	if o.CanaryService != nil {
		look("service", o.CanaryService)
	}
	for _, r := range o.Routers {
		if r.CanaryIngress != nil {
			look("ingress", r.CanaryIngress)
		}
	}
	return made, rival
}

// isTerminating reports whether an object is being deleted. Finalizers of other controllers may
// keep the object forever, so nothing waits for its end.
func isTerminating(obj metav1.Object) bool { return obj.GetDeletionTimestamp() != nil }

func (o Objects) isOwner(ref metav1.OwnerReference) bool { return ref.UID == o.Owner.UID }

// withOwner returns owner references that include the current reference to the owner. It removes
// other controller references, because an object has at most one controller.
func (o Objects) withOwner(refs []metav1.OwnerReference) []metav1.OwnerReference {
	theirs := func(ref metav1.OwnerReference) bool {
		return o.isOwner(ref) || ref.Controller != nil && *ref.Controller
	}
	return append(slices.DeleteFunc(slices.Clone(refs), theirs), o.Owner)
}

// canaryObjectMeta returns the metadata of an object that is created for the owner as a copy of
// another object. Annotations that describe only the copied object are left out.
func (o Objects) canaryObjectMeta(of metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:       of.GetNamespace(),
		Name:            of.GetName() + rollouts.CanarySuffix,
		Labels:          copyableMetadata(of.GetLabels()),
		Annotations:     copyableMetadata(of.GetAnnotations()),
		OwnerReferences: []metav1.OwnerReference{o.Owner},
	}
}

// addReleaseLabel adds the label of Deployments and Ingresses that Weir creates for a release. It
// may change the map.
func addReleaseLabel(labels map[string]string) map[string]string {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[rollouts.LabelOwnedByRelease] = "true"
	return labels
}

// ownerName returns the name of the owner as it is written to the route record of a router. A name
// is enough: it is unique in the namespace, and an owner that was deleted and created again
// restores the routes of its predecessor.
func (o Objects) ownerName() string { return strings.ToLower(o.Owner.Kind) + "/" + o.Owner.Name }

// routableObject returns the object of a router, or an error if another owner routes with it. Users
// who can write the router can forge the name in its route record, so the name counts only if the
// store knows an owner with this name.
func (o Objects) routableObject(r Router) (*unstructured.Unstructured, error) {
	obj, err := toUnstructured(r)
	if err != nil {
		return nil, err
	}
	record := readRouteRecord(obj)
	if record == nil || record.Owner == o.ownerName() {
		return obj, nil
	}
	if !slices.ContainsFunc(o.OtherReleases, func(other OtherRelease) bool { return strings.EqualFold(other.Release, record.Owner) }) {
		return obj, nil
	}
	return nil, errors.New(conflictMessage(r.displayName(), rollouts.Plainly(record.Owner)))
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package traffic answers where requests go and what must be written to
// Services and routers to send them elsewhere, one row per kind of router. It
// is pure: objects in, facts and changes out. Routes are always computed from
// the owner's original objects, never by editing the last edit. It must not
// know how objects are read or written, nor why traffic moves.
package traffic

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Objects are what requests pass on their way to the pods of one workload. An
// object that does not exist is nil.
type Objects struct {
	// Service and Ingress are the owner's; they serve the stable revision.
	Service *corev1.Service
	Ingress *networkingv1.Ingress
	// CanaryService and CanaryIngress are made here for the update revision.
	CanaryService *corev1.Service
	CanaryIngress *networkingv1.Ingress
	// Owner becomes the controller of what is made here.
	Owner metav1.OwnerReference
	// RevisionKey is the pod label that tells revisions apart.
	RevisionKey string
	// PodLabels are put on the pods of the update revision only.
	PodLabels map[string]string
}

// Provider is one kind of router. Changes are what is still to do; nothing
// when routers agree.
type Provider interface {
	// Observe returns Weight, Matches and Routed.
	Observe(objs Objects) planner.Route
	// Route sends the wanted share or the matching requests to the update
	// revision; neither is as much as Restore.
	Route(objs Objects, want planner.Route) ([]object.Change, error)
	// Restore makes routers forget the update revision.
	Restore(objs Objects) ([]object.Change, error)
}

// Row is one class of Ingress.
type Row struct {
	ClassType string
	Provider
}

// Table is every class of Ingress that can be routed.
var Table = []Row{
	{ClassType: "nginx", Provider: nginx{}},
}

const (
	field        = "spec.strategy.canary.trafficRoutings[0]"
	defaultClass = "nginx"
)

// Find returns the provider for a reference. The error tells the user which
// field asks for what cannot be done.
func Find(ref rollouts.TrafficRoutingRef) (Provider, error) {
	switch {
	case ref.Gateway != nil:
		return nil, fmt.Errorf("%s.gateway: Gateway API routes are not supported; use ingress", field)
	case len(ref.CustomNetworkRefs) > 0:
		return nil, fmt.Errorf("%s.customNetworkRefs: custom routes are not supported; use ingress", field)
	case ref.Ingress == nil:
		return nil, fmt.Errorf("%s.ingress: must name the Ingress in front of service %s", field, ref.Service)
	}
	class := ref.Ingress.Class()
	if class == "" {
		class = defaultClass
	}
	var known []string
	for _, r := range Table {
		if r.ClassType == class {
			return r, nil
		}
		known = append(known, r.ClassType)
	}
	return nil, fmt.Errorf("%s.ingress.classType: %q is not supported; use %s", field, class, strings.Join(known, " or "))
}

// Observe returns what the network of a reference does now, and whether it
// could route these matches, or a share if there are none.
func Observe(ref rollouts.TrafficRoutingRef, objs Objects, wanted []rollouts.RouteMatch) planner.Route {
	var r planner.Route
	provider, unserved := Find(ref)
	if unserved == nil {
		r = provider.Observe(objs)
	}
	switch {
	case objs.Service == nil:
		r.Missing = "service/" + ref.Service
	case ref.Ingress != nil && objs.Ingress == nil:
		r.Missing = "ingress/" + ref.Ingress.Name
	case unserved != nil:
		r.Trouble = unserved.Error()
	default:
		r.Trouble = trouble(provider, objs, wanted)
	}
	if objs.Service != nil {
		r.Pinned = objs.Service.Spec.Selector[objs.RevisionKey]
	}
	if objs.CanaryService != nil && made(objs.CanaryService) {
		r.Canary = objs.CanaryService.Spec.Selector[objs.RevisionKey]
	}
	return r
}

// trouble says why matches, or a share, could not be routed to any revision.
func trouble(provider Provider, objs Objects, wanted []rollouts.RouteMatch) string {
	want, one := planner.Route{Matches: wanted}, int32(1)
	if len(wanted) == 0 {
		want.Weight = &one
	}
	if _, err := CanaryService(objs, "any"); err != nil {
		return err.Error()
	}
	if _, err := provider.Route(objs, want); err != nil {
		return err.Error()
	}
	return ""
}

// made tells that an object was made for a release, by us or by whoever served
// the API before; anything else of that name belongs to somebody.
func made(obj metav1.Object) bool {
	for _, ref := range obj.GetOwnerReferences() {
		if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && gv.Group == rollouts.GroupName {
			return true
		}
	}
	return false
}

// owned returns references with the owner as the only one of our group.
func owned(refs []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	var kept []metav1.OwnerReference
	for _, ref := range refs {
		if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != rollouts.GroupName {
			kept = append(kept, ref)
		}
	}
	return append(kept, owner)
}

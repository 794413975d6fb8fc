// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package traffic answers where requests go and what must be written to
// Services and routers to send them elsewhere, one row per kind of router. It
// is pure: objects in, facts and changes out. Routes are always computed from
// the owner's original objects, never from the last edit. The package must not
// know how objects are read or written, nor why traffic moves.
package traffic

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Objects are what requests pass on their way to the pods of one workload. An
// object that does not exist is nil.
type Objects struct {
	// Stable is the name of the owner's Service, which may not exist.
	Stable types.NamespacedName
	// Service is the owner's; it serves the stable revision.
	Service *corev1.Service
	// CanaryService is made for the update revision.
	CanaryService *corev1.Service
	// Routers are in the order in which they are written.
	Routers []Router
	// Owner becomes the controller of the objects that are made for it. Objects with
	// the uid of another owner, or with none, are left alone.
	Owner metav1.OwnerReference
	// RevisionKey is the pod label that has the revision.
	RevisionKey string
	// PodLabels are put on the pods of the update revision only.
	PodLabels map[string]string
	// Shared reports whether one Service serves both revisions: no Service is pinned or
	// made, and routers select revisions by themselves.
	Shared bool
	// Template are the labels of the workload's pods; nil if it does not exist.
	Template map[string]string
	// StableRevision is the stable revision in the store. Held reports whether the owner's
	// release has taken these objects according to the store.
	StableRevision string
	Held           bool
	// Originals are the digests in the store of the originals on routers; nil where
	// there are none, and each original is believed.
	Originals []string
	// Made are the uids in the store of the objects that were made for the owner.
	Made []types.UID
	// Others are the other releases in the store that route by these objects.
	Others []Other
}

// Hidden reports whether there may be routers that may not be read.
func (o Objects) Hidden() bool {
	return slices.ContainsFunc(o.Routers, func(r Router) bool { return r.Hidden })
}

// Absent reports whether one of the routers cannot exist.
func (o Objects) Absent() bool {
	return slices.ContainsFunc(o.Routers, func(r Router) bool { return r.Absent != "" })
}

// Router is an object that sends requests to the stable Service.
type Router struct {
	Kind schema.GroupKind
	// Version is empty where any served version will do.
	Version string
	Name    string
	// Class is the dialect of an Ingress.
	Class string
	// Field is the field that names it, for messages.
	Field string

	// Object is the owner's: an *networkingv1.Ingress, or unstructured.
	Object object.Object
	// Beside is the Ingress made for the update revision.
	Beside *networkingv1.Ingress
	// Script is the user's Lua for this kind of router, and ScriptFrom names the
	// object that has it; both are empty if there is none.
	Script, ScriptFrom string
	// Absent says why there cannot be such an object, such as that the cluster
	// does not serve the kind.
	Absent string
	// Hidden reports whether the object may exist all the same.
	Hidden bool
}

// Routers are the routers that a reference names, not read yet: custom objects
// first, as in OpenKruise.
func Routers(ref rollouts.TrafficRoutingRef, field string) []Router {
	var rs []Router
	for i, c := range ref.CustomNetworkRefs {
		if i == rollouts.MaxNetworkRefs {
			// The reference was stored before there was a limit.
			rs = append(rs, Router{Field: field + ".customNetworkRefs", Absent: fmt.Sprintf("it names %d objects, and can name %d", len(ref.CustomNetworkRefs), i)})
			break
		}
		gv, err := schema.ParseGroupVersion(c.APIVersion)
		r := Router{
			Kind: schema.GroupKind{Group: gv.Group, Kind: c.Kind}, Version: gv.Version, Name: c.Name,
			Field: fmt.Sprintf("%s.customNetworkRefs[%d]", field, i),
		}
		switch {
		case err != nil:
			r.Absent = err.Error()
		case !rollouts.MayRoute(r.Kind):
			// The reference was stored before validation refused it.
			r.Absent = fmt.Sprintf("%s is never a router", r.Kind)
		}
		rs = append(rs, r)
	}
	if ref.Ingress != nil {
		class := ref.Ingress.Class()
		if class == "" {
			class = classNginx
		}
		rs = append(rs, Router{Kind: kindIngress, Version: "v1", Name: ref.Ingress.Name, Class: class, Field: field + ".ingress"})
	}
	if ref.Gateway != nil && ref.Gateway.HTTPRouteName != nil {
		rs = append(rs, Router{Kind: kindHTTPRoute, Name: *ref.Gateway.HTTPRouteName, Field: field + ".gateway"})
	}
	return rs
}

// Known reports whether a row of the table or a script can route it.
func (r Router) Known() bool {
	_, err := find(r)
	return err == nil
}

// Ingress reports whether the router is an Ingress.
func (r Router) Ingress() bool { return r.Kind == kindIngress }

// Doubled reports whether the router is, or may be, routed by a canary Ingress.
func (r Router) Doubled() bool {
	provider, err := find(r)
	_, doubled := provider.(canaryIngress)
	return doubled || err != nil
}

// HTTPRoute reports whether the router is an HTTPRoute of the Gateway API.
func (r Router) HTTPRoute() bool { return r.Kind == kindHTTPRoute }

// ScriptKey is where a ConfigMap of scripts has the one for a router.
func (r Router) ScriptKey() string {
	if r.Ingress() {
		return "lua.traffic.routing.ingress." + r.Class
	}
	return "lua.traffic.routing." + r.Kind.Kind + "." + r.Kind.Group
}

// exists reports whether the owner's object or a canary Ingress exists.
func (r Router) exists() bool { return r.Object != nil || r.Beside != nil }

// path is how a message names the object.
func (r Router) path() string { return strings.ToLower(r.Kind.Kind) + "/" + r.Name }

// Provider routes one kind of router. Changes are what is still to do; there are
// none when the router does what is wanted.
type Provider interface {
	// Observe returns what one router does: Weight, Matches, Headers, Routed,
	// Edited, and Pending, Refused or Trouble.
	Observe(o Objects, r Router) planner.Route
	// Route sends the wanted share or the matching requests to the update
	// revision. Without share and matches it restores.
	Route(o Objects, r Router, want planner.Route) ([]object.Change, error)
	// Can returns why this router could not do the route; nil if it could.
	Can(o Objects, r Router, want planner.Route) error
	// Supports returns why no router of the kind could do the route, whatever its owner
	// configures; nil if one could.
	Supports(p Params) error
	// Restore takes the update revision off the router.
	Restore(o Objects, r Router) ([]object.Change, error)
}

// Params are what a route is computed from, together with the original.
type Params struct {
	planner.Route
	// Stable and Canary are the names of the Services; equal if one serves both revisions.
	Stable, Canary string
	// Namespace is the namespace of the Services and of the router.
	Namespace string
}

func (o Objects) params(want planner.Route) Params {
	p := Params{Route: want, Stable: o.Stable.Name, Canary: o.Stable.Name, Namespace: o.Stable.Namespace}
	if !o.Shared {
		p.Canary += rollouts.CanarySuffix
	}
	return p
}

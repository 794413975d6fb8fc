// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package traffic computes the current route of requests and the changes of Services and routers that
// implement another route. Each kind of router has a provider in the table Providers. The package is
// pure: objects in, facts and changes out. A route is always computed from the owner's original object,
// never from the last edit. The package must not know how objects are read or written, nor why traffic
// moves.
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

// Objects are the Services and routers through which requests reach the pods of one workload. An
// object that does not exist is nil.
type Objects struct {
	// ServiceName is the name of the owner's Service, which may not exist.
	ServiceName types.NamespacedName
	// Service is the owner's Service. During a release it serves the stable revision.
	Service *corev1.Service
	// CanaryService is the Service that Weir creates for the canary revision.
	CanaryService *corev1.Service
	// Routers are in the order in which they are written.
	Routers []Router
	// Owner is the controller of the objects that are created for the release. Objects that have
	// another owner, or none, are not changed.
	Owner metav1.OwnerReference
	// RevisionKey is the pod label with the revision.
	RevisionKey string
	// CanaryPodLabels are set on the pods of the canary revision only.
	CanaryPodLabels map[string]string
	// Shared reports whether one Service serves both revisions. Then no Service is pinned or
	// created, and routers select revisions themselves.
	Shared bool
	// TemplateLabels are the pod labels in the workload's template; nil if the workload does not
	// exist.
	TemplateLabels map[string]string
	// StableRevision is the stable revision in the store. AcquiredByOwner reports whether the store
	// says that the owner's release has acquired these objects.
	StableRevision  string
	AcquiredByOwner bool
	// OriginalDigests are the stored digests of the routers' originals. If it is nil, every
	// original is trusted.
	OriginalDigests []string
	// CreatedUIDs are the stored UIDs of the objects that were created for the owner.
	CreatedUIDs []types.UID
	// OtherReleases are the other releases in the store that use some of the objects.
	OtherReleases []OtherRelease
}

// HasUnreadableRouter reports whether a router may exist that Weir is not allowed to read.
func (o Objects) HasUnreadableRouter() bool {
	return slices.ContainsFunc(o.Routers, func(r Router) bool { return r.Unreadable })
}

// HasUnavailableRouter reports whether one of the routers cannot exist.
func (o Objects) HasUnavailableRouter() bool {
	return slices.ContainsFunc(o.Routers, func(r Router) bool { return r.Unavailable != "" })
}

// Router is an object that sends requests to the stable Service.
type Router struct {
	Kind schema.GroupKind
	// Version is empty if any served version can be used.
	Version string
	Name    string
	// Class is the ingress class, which selects the annotations of an Ingress.
	Class string
	// Field is the field of the Rollout that names the router, for messages.
	Field string

	// Object is the owner's object: an *networkingv1.Ingress, or unstructured.
	Object object.Object
	// CanaryIngress is the Ingress that Weir creates for the canary revision.
	CanaryIngress *networkingv1.Ingress
	// Script is the user's Lua script for this kind of router, and ScriptFrom names the object that
	// contains it. Both are empty if there is none.
	Script, ScriptFrom string
	// Unavailable says why the object cannot exist, for example because the cluster does not serve
	// the kind.
	Unavailable string
	// Unreadable reports whether the object may exist although it could not be read.
	Unreadable bool
}

// RoutersFor returns the routers that a reference names, without their objects. Custom objects come
// first, as in OpenKruise.
func RoutersFor(ref rollouts.TrafficRoutingRef, field string) []Router {
	var rs []Router
	for i, c := range ref.CustomNetworkRefs {
		if i == rollouts.MaxNetworkRefs {
			// The reference was stored before there was a limit.
			rs = append(rs, Router{Field: field + ".customNetworkRefs", Unavailable: fmt.Sprintf("it names %d objects, and can name %d", len(ref.CustomNetworkRefs), i)})
			break
		}
		gv, err := schema.ParseGroupVersion(c.APIVersion)
		r := Router{
			Kind: schema.GroupKind{Group: gv.Group, Kind: c.Kind}, Version: gv.Version, Name: c.Name,
			Field: fmt.Sprintf("%s.customNetworkRefs[%d]", field, i),
		}
		switch {
		case err != nil:
			r.Unavailable = err.Error()
		case !rollouts.MayRoute(r.Kind):
			// The reference was stored before validation refused it.
			r.Unavailable = fmt.Sprintf("%s is never a router", r.Kind)
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

// HasProvider reports whether a built-in provider or a script can route with the router.
func (r Router) HasProvider() bool {
	_, err := findProvider(r)
	return err == nil
}

// IsIngress reports whether the router is an Ingress.
func (r Router) IsIngress() bool { return r.Kind == kindIngress }

// UsesCanaryIngress reports whether the router uses, or may use, a canary Ingress.
func (r Router) UsesCanaryIngress() bool {
	provider, err := findProvider(r)
	_, doubled := provider.(canaryIngress)
	return doubled || err != nil
}

// IsHTTPRoute reports whether the router is an HTTPRoute of the Gateway API.
func (r Router) IsHTTPRoute() bool { return r.Kind == kindHTTPRoute }

// ScriptKey returns the key in a ConfigMap under which users store the script for this router.
func (r Router) ScriptKey() string {
	if r.IsIngress() {
		return "lua.traffic.routing.ingress." + r.Class
	}
	return "lua.traffic.routing." + r.Kind.Kind + "." + r.Kind.Group
}

// exists reports whether the owner's object or a canary Ingress exists.
func (r Router) exists() bool { return r.Object != nil || r.CanaryIngress != nil }

// displayName returns the kind and name of the router for messages.
func (r Router) displayName() string { return strings.ToLower(r.Kind.Kind) + "/" + r.Name }

// Provider routes requests with one kind of router. The returned changes are those still to be
// made; there are none when the router implements the wanted route.
type Provider interface {
	// Observe returns the current route of one router. It sets Weight, Matches, Headers, Routed,
	// Edited, and Pending, Refused or Trouble.
	Observe(o Objects, r Router) planner.Route
	// Route sends the wanted weight or the matching requests to the canary revision. It restores
	// the router if the wanted route has no weight and no matches.
	Route(o Objects, r Router, want planner.Route) ([]object.Change, error)
	// CheckRoute returns why this router does not support a route; nil if it does.
	CheckRoute(o Objects, r Router, want planner.Route) error
	// CheckKind returns why no router of the kind supports a route, regardless of its owner's
	// configuration; nil if one could.
	CheckKind(p Params) error
	// Restore removes the route from the router.
	Restore(o Objects, r Router) ([]object.Change, error)
}

// Params are the input, together with the original, from which a route is computed.
type Params struct {
	planner.Route
	// StableService and CanaryService are the names of the Services. They are equal if one Service
	// serves both revisions.
	StableService, CanaryService string
	// Namespace is the namespace of the Services and of the router.
	Namespace string
}

func (o Objects) paramsFor(want planner.Route) Params {
	p := Params{Route: want, StableService: o.ServiceName.Name, CanaryService: o.ServiceName.Name, Namespace: o.ServiceName.Namespace}
	if !o.Shared {
		p.CanaryService += rollouts.CanarySuffix
	}
	return p
}

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
	// CanaryService is made here for the update revision.
	CanaryService *corev1.Service
	// Routers are in the order in which they are written.
	Routers []Router
	// Owner becomes the controller of what is made here. What has the uid of another
	// one, or of none, is left alone.
	Owner metav1.OwnerReference
	// RevisionKey is the pod label that tells revisions apart.
	RevisionKey string
	// PodLabels are put on the pods of the update revision only.
	PodLabels map[string]string
	// Shared reports whether one Service serves both revisions: none is pinned or
	// made, and routers tell revisions apart by themselves.
	Shared bool
	// Template are the labels of the workload's pods; nil if it does not exist.
	Template map[string]string
	// StableRevision is the one that the store knows, and Held that the store knows
	// these objects to be taken for the owner's release.
	StableRevision string
	Held           bool
	// Originals are digests of the originals that were kept on routers, as the store
	// knows them; nil where it knows none, and each is believed.
	Originals []string
	// Made are the uids of what was made for the owner, as the store knows them.
	Made []types.UID
	// Others are who else in the store routes by them.
	Others []Other
}

// Hidden reports whether there may be routers which may not be seen.
func (o Objects) Hidden() bool {
	return slices.ContainsFunc(o.Routers, func(r Router) bool { return r.Hidden })
}

// Absent reports whether the cluster lacks what is to be routed.
func (o Objects) Absent() bool {
	return slices.ContainsFunc(o.Routers, func(r Router) bool { return r.Absent != "" })
}

// Router is an object that sends requests to the stable Service.
type Router struct {
	Kind schema.GroupKind
	// Version is empty where whichever is served will do.
	Version string
	Name    string
	// Class is the dialect of an Ingress.
	Class string
	// Field names it in the object of its user.
	Field string

	// Object is the owner's: an *networkingv1.Ingress, or unstructured.
	Object object.Object
	// Beside is the Ingress made for the update revision.
	Beside *networkingv1.Ingress
	// Script is the user's Lua for this kind of router, if there is one.
	Script string
	// ScriptFrom names the object that has the script.
	ScriptFrom string
	// Absent says why there cannot be such an object, such as that the cluster
	// does not serve the kind.
	Absent string
	// Hidden reports whether there may be one all the same.
	Hidden bool
}

// Routers are what a reference names, nothing of it read yet: custom objects
// first, as in OpenKruise.
func Routers(ref rollouts.TrafficRoutingRef, field string) []Router {
	var rs []Router
	for i, c := range ref.CustomNetworkRefs {
		if i == rollouts.MaxNetworkRefs {
			// It was stored before there was a limit.
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
			// It was stored before it was refused.
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

// Known reports whether a provider or a script can route it.
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

// exists reports whether there is an object of the owner, or a canary Ingress.
func (r Router) exists() bool { return r.Object != nil || r.Beside != nil }

// path is how a message names the object.
func (r Router) path() string { return strings.ToLower(r.Kind.Kind) + "/" + r.Name }

// Provider is one kind of router. Changes are what is still to do; nothing
// when the router agrees.
type Provider interface {
	// Observe returns what one router does: Weight, Matches, Headers, Routed,
	// Edited, and Pending, Refused or Trouble.
	Observe(o Objects, r Router) planner.Route
	// Route sends the wanted share or the matching requests to the update
	// revision; neither is as much as Restore.
	Route(o Objects, r Router, want planner.Route) ([]object.Change, error)
	// Can returns why the router could not do it; nil when it could.
	Can(o Objects, r Router, want planner.Route) error
	// Supports returns why no such router could do it, whatever its owner configures;
	// nil if one could.
	Supports(p Params) error
	// Restore makes the router forget the update revision.
	Restore(o Objects, r Router) ([]object.Change, error)
}

// Params is what a route is computed from beside the original.
type Params struct {
	planner.Route
	// Stable and Canary are the names of the Services; one name if they share it.
	Stable, Canary string
	// Namespace is that of the Services and of the router.
	Namespace string
}

func (o Objects) params(want planner.Route) Params {
	p := Params{Route: want, Stable: o.Stable.Name, Canary: o.Stable.Name, Namespace: o.Stable.Namespace}
	if !o.Shared {
		p.Canary += rollouts.CanarySuffix
	}
	return p
}

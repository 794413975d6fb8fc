// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package effect

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// Network reads Services and routers. Kinds of routers that not every cluster
// serves are watched from the first time that somebody names one.
type Network struct {
	Server Server
	// Watch starts to watch a kind.
	Watch func(client.Object) error
	// Configuration is where scripts of users are looked for, in this order.
	Configuration []string

	mu      sync.Mutex
	watched map[schema.GroupVersionKind]bool
}

// Read fills in the Services and the routers that are named.
func (n *Network) Read(ctx context.Context, namespace, service string, o *traffic.Objects) error {
	o.Stable = types.NamespacedName{Namespace: namespace, Name: service}
	var err error
	if o.Service, err = get(ctx, n.Server, namespace, service, &corev1.Service{}); err != nil {
		return err
	}
	if o.CanaryService, err = get(ctx, n.Server, namespace, service+rollouts.CanarySuffix, &corev1.Service{}); err != nil {
		return err
	}
	for i := range o.Routers {
		r := &o.Routers[i]
		if r.Absent != "" {
			continue
		}
		if err := n.readScript(ctx, r); err != nil {
			return err
		}
		if r.Ingress() {
			err = n.readIngress(ctx, namespace, r, r.Doubled() && (o.CanaryService != nil || o.Shared))
		} else {
			err = n.readOther(ctx, namespace, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readScript looks for the script of a kind of router, or a class of Ingress.
func (n *Network) readScript(ctx context.Context, r *traffic.Router) error {
	for _, namespace := range n.Configuration {
		scripts, err := get(ctx, n.Server, namespace, rollouts.ConfigurationName, &corev1.ConfigMap{})
		if err != nil {
			return err
		}
		if scripts == nil {
			continue
		}
		if script, ok := scripts.Data[r.ScriptKey()]; ok {
			r.Script, r.ScriptFrom = script, "ConfigMap "+namespace+"/"+rollouts.ConfigurationName
			return nil
		}
	}
	return nil
}

// readIngress reads the Ingress and the one made beside it. That is made after
// its Service and may not be in the cache yet. Who took it for absent would
// remove the Service that it sends requests to, or the pods of one that both
// revisions share, so its absence is asked of the server.
func (n *Network) readIngress(ctx context.Context, namespace string, r *traffic.Router, routed bool) error {
	stable, err := get(ctx, n.Server, namespace, r.Name, &networkingv1.Ingress{})
	if err != nil {
		return err
	}
	r.Object = orNil(stable)
	canary := r.Name + rollouts.CanarySuffix
	if r.Beside, err = get(ctx, n.Server, namespace, canary, &networkingv1.Ingress{}); err != nil || r.Beside != nil {
		return err
	}
	if routed {
		r.Beside, err = get(ctx, n.Server.Live, namespace, canary, &networkingv1.Ingress{})
	}
	return err
}

// readOther reads a router of a kind that the cluster may not serve, or that
// may not be read.
func (n *Network) readOther(ctx context.Context, namespace string, r *traffic.Router) error {
	var versions []string
	if r.Version != "" {
		versions = append(versions, r.Version)
	}
	mapping, err := n.Server.RESTMapper().RESTMapping(r.Kind, versions...)
	if meta.IsNoMatchError(err) {
		r.Absent = fmt.Sprintf("the cluster does not serve %s; install what brings it, or name another router", r.Kind)
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for %s: %w", r.Kind, err)
	}
	if r.Absent, err = n.watch(ctx, mapping.GroupVersionKind); err != nil || r.Absent != "" {
		return err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(mapping.GroupVersionKind)
	found, err := get(ctx, n.Server, namespace, r.Name, obj)
	r.Object = orNil(found)
	return err
}

// watch watches a kind, unless that is forbidden: a cache that may not list
// would never answer.
func (n *Network) watch(ctx context.Context, kind schema.GroupVersionKind) (forbidden string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.watched[kind] {
		return "", nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	err = n.Server.Live.List(ctx, list, client.Limit(1))
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("weir-controller may not list them in every namespace: grant get, list, watch and patch of %s by a ClusterRole with the label %s: \"true\"",
			kind.GroupKind(), AggregateLabel), nil
	}
	if err != nil {
		return "", fmt.Errorf("listing %s: %w", kind.GroupKind(), err)
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	if err := n.Watch(obj); err != nil {
		return "", fmt.Errorf("watching %s: %w", kind.GroupKind(), err)
	}
	if n.watched == nil {
		n.watched = map[schema.GroupVersionKind]bool{}
	}
	n.watched[kind] = true
	return "", nil
}

// AggregateLabel on a ClusterRole adds its rules to those of weir-controller.
const AggregateLabel = "rollouts.kruise.io/aggregate-to-weir-controller"

// orNil keeps a nil pointer from becoming an object that is not nil.
func orNil[T interface {
	object.Object
	comparable
}](o T) object.Object {
	var none T
	if o == none {
		return nil
	}
	return o
}

// get reads an object, or returns nil when there is none.
func get[T client.Object](ctx context.Context, from client.Reader, namespace, name string, into T) (T, error) {
	var none T
	err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	switch {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("reading %T %s: %w", into, name, err)
	}
	return into, nil
}

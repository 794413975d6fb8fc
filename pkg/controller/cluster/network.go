// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// Network reads Services and routers. If not every cluster serves a kind of router, the watch starts when
// an object first references the kind.
type Network struct {
	Reader Reader
	// Watch starts to watch a kind.
	Watch func(client.Object) error
	// ScriptNamespaces are the namespaces that may have a ConfigMap with scripts of users. Earlier ones have
	// precedence.
	ScriptNamespaces []string

	optional OptionalKinds
}

// NewNetwork returns a Network for the controller c. It makes c watch each kind of router that it reads.
// The list determines the kind of objects that c reconciles.
func NewNetwork(s Reader, c controller.Controller, from cache.Cache, list func() client.ObjectList, configuration []string) *Network {
	return &Network{Reader: s, ScriptNamespaces: configuration, Watch: func(o client.Object) error {
		return c.Watch(source.Kind(from, o, EnqueueByIndex(s, list, ByNetwork, KeysOfNetworkObject(o.GetObjectKind().GroupVersionKind().Kind))))
	}}
}

// WatchNetwork registers watches of Services, Ingresses, the ConfigMaps with scripts, and the
// CustomResourceDefinitions of other routers. The list determines the kind of objects that the controller
// reconciles.
func WatchNetwork(b *builder.Builder, s Reader, list func() client.ObjectList) *builder.Builder {
	return b.Watches(&corev1.Service{}, EnqueueByIndex(s, list, ByNetwork, KeysOfNetworkObject("Service"))).
		Watches(&networkingv1.Ingress{}, EnqueueByIndex(s, list, ByNetwork, KeysOfNetworkObject("Ingress"))).
		Watches(&corev1.ConfigMap{}, EnqueueRouting(s, list)).
		Watches(NewDefinition(), EnqueueUsersOfGroup(s, list))
}

// ReadNetwork reads the referenced Services and routers into o.
func (n *Network) ReadNetwork(ctx context.Context, namespace, service string, o *traffic.Objects) error {
	o.ServiceName = types.NamespacedName{Namespace: namespace, Name: service}
	var err error
	if o.Service, err = get(ctx, n.Reader, namespace, service, &corev1.Service{}); err != nil {
		return err
	}
	if o.CanaryService, err = get(ctx, n.Reader, namespace, service+rollouts.CanarySuffix, &corev1.Service{}); err != nil {
		return err
	}
	for i := range o.Routers {
		r := &o.Routers[i]
		if r.Unavailable != "" {
			continue
		}
		if err := n.readScript(ctx, r); err != nil {
			return err
		}
		if r.IsIngress() {
			err = n.readIngress(ctx, namespace, r, r.UsesCanaryIngress() && (o.CanaryService != nil || o.Shared))
		} else {
			err = n.readRouter(ctx, namespace, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	// unreadableDelay is the time until the next look at a router that may not be read or that another
	// release uses.
	unreadableDelay = 10 * time.Second
	// unavailableDelay is the time until the next look at a router whose kind the cluster does not serve. An
	// aggregated API server can add the kind without a CustomResourceDefinition that could be watched.
	unavailableDelay = time.Minute
)

// RouterRequeueDelay returns the time until the next look at routers that no watch covers; zero if there are
// none.
func RouterRequeueDelay(o traffic.Objects) time.Duration {
	switch {
	case o.HasUnreadableRouter(), o.AcquiredByOther():
		return unreadableDelay
	case o.HasUnavailableRouter():
		return unavailableDelay
	default:
		return 0
	}
}

// readScript reads the user's script for the kind of a router or the class of an Ingress, if there is one.
func (n *Network) readScript(ctx context.Context, r *traffic.Router) error {
	for _, namespace := range n.ScriptNamespaces {
		scripts, err := get(ctx, n.Reader, namespace, rollouts.ConfigurationName, &corev1.ConfigMap{})
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

// readIngress reads the Ingress and its canary Ingress. If the cache does not show a canary Ingress that may
// exist, readIngress asks the server: a pass that wrongly missed a new canary Ingress would remove the
// Service to which the Ingress sends requests, or the pods behind it.
func (n *Network) readIngress(ctx context.Context, namespace string, r *traffic.Router, routed bool) error {
	stable, err := get(ctx, n.Reader, namespace, r.Name, &networkingv1.Ingress{})
	if err != nil {
		return err
	}
	r.Object = orNil(stable)
	canary := r.Name + rollouts.CanarySuffix
	if r.CanaryIngress, err = get(ctx, n.Reader, namespace, canary, &networkingv1.Ingress{}); err != nil || r.CanaryIngress != nil {
		return err
	}
	if routed {
		r.CanaryIngress, err = get(ctx, n.Reader.Live, namespace, canary, &networkingv1.Ingress{})
	}
	return err
}

// readRouter reads a router other than an Ingress. The cluster may not serve its kind, or weir-controller may
// have no permission to read it. A kind without a provider and without a script is not read, unless it was
// read before: it may still have routes of a removed script.
func (n *Network) readRouter(ctx context.Context, namespace string, r *traffic.Router) error {
	if !r.HasProvider() && !n.optional.HasFound(r.Kind) {
		return nil
	}
	var versions []string
	if r.Version != "" {
		versions = append(versions, r.Version)
	}
	kind, absence, err := n.optional.FindAndWatch(ctx, n.Reader, r.Kind, n.Watch, versions...)
	if r.Unavailable, r.Unreadable = absence.Reason, absence.Forbidden; err != nil || r.Unavailable != "" {
		return err
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	found, err := get(ctx, n.Reader, namespace, r.Name, obj)
	r.Object = orNil(found)
	return err
}

// orNil returns a nil interface for a nil pointer.
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

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

// Network reads Services and routers. Kinds of routers that not every cluster
// serves are watched from the first time that somebody names one.
type Network struct {
	Reader Reader
	// Watch starts to watch a kind.
	Watch func(client.Object) error
	// ScriptNamespaces is where scripts of users are looked for, in this order.
	ScriptNamespaces []string

	optional OptionalKinds
}

// NewNetwork reads for a controller of Rollouts (or of objects of another kind, as the
// list says), and has that watch each kind that is read.
func NewNetwork(s Reader, c controller.Controller, from cache.Cache, list func() client.ObjectList, configuration []string) *Network {
	return &Network{Reader: s, ScriptNamespaces: configuration, Watch: func(o client.Object) error {
		return c.Watch(source.Kind(from, o, EnqueueByIndex(s, list, ByNetwork, KeysOfNetworkObject(o.GetObjectKind().GroupVersionKind().Kind))))
	}}
}

// WatchNetwork has a controller of Rollouts (or of objects of another kind, as the list
// says) watch what every cluster serves of the network, the scripts, and the definitions
// of other kinds.
func WatchNetwork(b *builder.Builder, s Reader, list func() client.ObjectList) *builder.Builder {
	return b.Watches(&corev1.Service{}, EnqueueByIndex(s, list, ByNetwork, KeysOfNetworkObject("Service"))).
		Watches(&networkingv1.Ingress{}, EnqueueByIndex(s, list, ByNetwork, KeysOfNetworkObject("Ingress"))).
		Watches(&corev1.ConfigMap{}, EnqueueRouting(s, list)).
		Watches(NewDefinition(), EnqueueUsersOfGroup(s, list))
}

// ReadNetwork fills in the Services and the routers that are named.
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
	// unreadableDelay is how soon to look again for what may not be seen, or is another's.
	unreadableDelay = 10 * time.Second
	// unavailableDelay is how soon to look again for what the cluster does not serve and no
	// definition may tell of.
	unavailableDelay = time.Minute
)

// RouterRequeueDelay is how soon to look again for routers of which nothing may tell that they
// come; 0 where all are there.
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

// readScript looks for the script of a kind of router, or a class of Ingress.
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

// readIngress reads the Ingress and the one made beside it. That is made after
// its Service and may not be in the cache yet. Who took it for absent would
// remove the Service that it sends requests to, or the pods of one that both
// revisions share, so its absence is asked of the server.
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

// readRouter reads a router of a kind that the cluster may not serve, or that
// may not be read. One that nothing routes, neither a provider nor a script of an
// administrator, is not even looked for, unless there was a script for it before.
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

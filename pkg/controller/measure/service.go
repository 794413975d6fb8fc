// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/source"
)

// Get implements Sources. It asks one endpoint that is ready, another one each time.
func (c *Cluster) Get(ctx context.Context, namespace string, h rollouts.HTTPCheck, window time.Time) (source.Answer, error) {
	if err := c.lookUpServers(ctx); err != nil {
		return source.Answer{}, transient{err}
	}
	port, err := c.port(ctx, namespace, h)
	if err != nil {
		return source.Answer{}, err
	}
	ready, err := c.endpoints(ctx, types.NamespacedName{Namespace: namespace, Name: h.Service}, port)
	switch {
	case err != nil:
		return source.Answer{}, transient{err}
	case len(ready) == 0:
		return source.Answer{}, transient{fmt.Errorf("service %s has no endpoint that is ready", h.Service)}
	}
	answer, err := c.Services.Get(ctx, source.Request{
		Host: h.Service + "." + namespace + ".svc", Port: port.Port, Path: cmp.Or(h.Path, "/"),
		Endpoint: ready[int(window.Unix()/int64(turn/time.Second))%len(ready)], Window: window,
	})
	if err != nil {
		return source.Answer{}, transient{err}
	}
	return answer, nil
}

// turn is after how long another endpoint is asked.
const turn = 5 * time.Second

// port is the one of a Service that is asked.
func (c *Cluster) port(ctx context.Context, namespace string, h rollouts.HTTPCheck) (corev1.ServicePort, error) {
	var service corev1.Service
	err := c.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: h.Service}, &service)
	switch {
	case apierrors.IsNotFound(err):
		return corev1.ServicePort{}, transient{fmt.Errorf("service %s does not exist", h.Service)}
	case err != nil:
		return corev1.ServicePort{}, transient{err}
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return corev1.ServicePort{}, fmt.Errorf("service %s is of type ExternalName, which no check asks; name one that has endpoints", h.Service)
	}
	number := cmp.Or(h.Port, 80)
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Port == number && (p.Protocol == corev1.ProtocolTCP || p.Protocol == "")
	})
	if i < 0 {
		return corev1.ServicePort{}, fmt.Errorf("service %s has no port %d of TCP", h.Service, number)
	}
	return service.Spec.Ports[i], nil
}

// maxSlices is how many EndpointSlices of a Service are read.
const maxSlices = 10

// endpoints are those of a port of a Service that are ready, in order.
func (c *Cluster) endpoints(ctx context.Context, service types.NamespacedName, port corev1.ServicePort) ([]netip.AddrPort, error) {
	var all discoveryv1.EndpointSliceList
	err := c.Live.List(ctx, &all, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}, client.Limit(maxSlices))
	if err != nil {
		return nil, fmt.Errorf("reading the endpoints of service %s: %w", service.Name, err)
	}
	var ready []netip.AddrPort
	for _, slice := range all.Items {
		for _, p := range slice.Ports {
			if p.Port == nil || deref(p.Name) != port.Name {
				continue
			}
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready == nil || *e.Conditions.Ready {
					ready = append(ready, addresses(e.Addresses, *p.Port)...)
				}
			}
		}
	}
	slices.SortFunc(ready, netip.AddrPort.Compare)
	return slices.Compact(ready), nil
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// addresses leaves out what is no address of a network.
func addresses(texts []string, port int32) (all []netip.AddrPort) {
	for _, text := range texts {
		if ip, err := netip.ParseAddr(text); err == nil && port > 0 && port <= 65535 {
			all = append(all, netip.AddrPortFrom(ip, uint16(port)))
		}
	}
	return all
}

// servers are the addresses of kube-apiserver, which nobody asks through Weir.
type servers struct {
	mu    sync.Mutex
	known []netip.AddrPort
	until time.Time
}

// serversAge is how long they are believed.
const serversAge = time.Minute

// known are the addresses of kube-apiserver, as they were looked up last.
func (c *Cluster) knownServers() []netip.AddrPort {
	c.servers.mu.Lock()
	defer c.servers.mu.Unlock()
	return c.servers.known
}

// lookUpServers looks up the addresses of kube-apiserver. Nobody is asked before they are known.
func (c *Cluster) lookUpServers(ctx context.Context) error {
	c.servers.mu.Lock()
	defer c.servers.mu.Unlock()
	if c.Clock.Now().Before(c.servers.until) {
		return nil
	}
	name := types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}
	var service corev1.Service
	if err := c.Reader.Get(ctx, name, &service); err != nil {
		return fmt.Errorf("reading the addresses of kube-apiserver: %w", err)
	}
	var known []netip.AddrPort
	for _, port := range service.Spec.Ports {
		at, err := c.endpoints(ctx, name, port)
		if err != nil {
			return err
		}
		known = slices.Concat(known, at, addresses(service.Spec.ClusterIPs, port.Port))
	}
	for i, at := range known {
		known[i] = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	c.servers.known, c.servers.until = known, c.Clock.Now().Add(serversAge)
	return nil
}

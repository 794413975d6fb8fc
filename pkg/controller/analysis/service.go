// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/source"
)

// QueryService implements Sources. It sends a request to one ready endpoint. Consecutive windows
// take turns at the endpoints.
func (c *Cluster) QueryService(ctx context.Context, namespace string, h rollouts.HTTPCheck, window Window) (source.Answer, error) {
	if err := c.refreshAPIServers(ctx); err != nil {
		return source.Answer{}, transientError{err}
	}
	port, err := c.servicePort(ctx, namespace, h)
	if err != nil {
		return source.Answer{}, err
	}
	at, err := c.selectEndpoint(ctx, types.NamespacedName{Namespace: namespace, Name: h.Service}, port, window)
	if err != nil {
		return source.Answer{}, transientError{err}
	}
	answer, err := c.Services.Get(ctx, source.Request{
		Namespace: namespace, Host: serviceHost(namespace, h.Service), Port: port.Port, Path: cmp.Or(h.Path, "/"), Endpoint: at, Window: window.Start,
	})
	if err != nil {
		return source.Answer{}, transientError{err}
	}
	return answer, nil
}

func serviceHost(namespace, service string) string { return service + "." + namespace + ".svc" }

// servicePort returns the port of the Service that the check queries.
func (c *Cluster) servicePort(ctx context.Context, namespace string, h rollouts.HTTPCheck) (corev1.ServicePort, error) {
	var service corev1.Service
	err := c.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: h.Service}, &service)
	switch {
	case apierrors.IsNotFound(err):
		return corev1.ServicePort{}, transientError{fmt.Errorf("service %s does not exist", h.Service)}
	case err != nil:
		return corev1.ServicePort{}, transientError{err}
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

const (
	// maxSlices is how many EndpointSlices of a Service are read.
	maxSlices = 10
	// maxPods is how many endpoints are examined to find one that is a running pod.
	maxPods = 100
)

// endpoint is an address of a Service, and the pod that has it according to the EndpointSlice.
type endpoint struct {
	at  netip.AddrPort
	pod string
}

// selectEndpoint returns a ready endpoint of a port of a Service. The number of the window selects
// it. Users can write EndpointSlices, so an address from a slice alone could make Weir connect to
// servers that network policies hide from these users. So the endpoint must be a pod of the
// namespace whose status, which only kubelet writes, has the address. The pod must be running,
// because another pod may have got the address of a pod that has ended. An administrator can allow
// other endpoints of a Service with --source-hosts.
func (c *Cluster) selectEndpoint(ctx context.Context, service types.NamespacedName, port corev1.ServicePort, window Window) (netip.AddrPort, error) {
	ready, err := c.readyEndpoints(ctx, service, port)
	switch {
	case err != nil:
		return netip.AddrPort{}, err
	case len(ready) == 0:
		return netip.AddrPort{}, fmt.Errorf("service %s has no endpoint that is ready", service.Name)
	}
	first := window.number()
	if host := serviceHost(service.Namespace, service.Name); c.Rules.IsNamed(host) {
		return ready[first%len(ready)].at, nil
	}
	for i := range min(len(ready), maxPods) {
		e := ready[(first+i)%len(ready)]
		isPod, err := c.isRunningPodAt(ctx, types.NamespacedName{Namespace: service.Namespace, Name: e.pod}, e.at.Addr())
		if err != nil || isPod {
			return e.at, err
		}
	}
	return netip.AddrPort{}, fmt.Errorf("service %s has no endpoint that is a running pod of namespace %s; an administrator may add %s to --source-hosts, so that other endpoints are asked",
		service.Name, service.Namespace, serviceHost(service.Namespace, service.Name))
}

// isRunningPodAt reports whether a pod is running and has the address in its status.
func (c *Cluster) isRunningPodAt(ctx context.Context, key types.NamespacedName, ip netip.Addr) (bool, error) {
	if key.Name == "" {
		return false, nil
	}
	var pod corev1.Pod
	if err := c.Reader.Get(ctx, key, &pod); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading pod %s: %w", key.Name, err)
	}
	return pod.Status.Phase == corev1.PodRunning && slices.ContainsFunc(pod.Status.PodIPs, func(has corev1.PodIP) bool {
		at, err := netip.ParseAddr(has.IP)
		return err == nil && at == ip
	}), nil
}

// readyEndpoints returns the ready endpoints of a port of a Service, in order.
func (c *Cluster) readyEndpoints(ctx context.Context, service types.NamespacedName, port corev1.ServicePort) ([]endpoint, error) {
	var all discoveryv1.EndpointSliceList
	err := c.Live.List(ctx, &all, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}, client.Limit(maxSlices))
	if err != nil {
		return nil, fmt.Errorf("reading the endpoints of service %s: %w", service.Name, err)
	}
	var ready []endpoint
	for _, slice := range all.Items {
		for _, p := range slice.Ports {
			if p.Port == nil || deref(p.Name) != port.Name {
				continue
			}
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && !*e.Conditions.Ready {
					continue
				}
				for _, at := range addrPorts(e.Addresses, *p.Port) {
					ready = append(ready, endpoint{at, podName(e.TargetRef, service.Namespace)})
				}
			}
		}
	}
	slices.SortFunc(ready, func(a, b endpoint) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.pod, b.pod)) })
	return slices.Compact(ready), nil
}

// podName returns the name in a reference to a pod of the namespace; empty if the reference is to
// another kind or namespace.
func podName(ref *corev1.ObjectReference, namespace string) string {
	if ref == nil || ref.Kind != "Pod" || ref.Namespace != "" && ref.Namespace != namespace {
		return ""
	}
	return ref.Name
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// addrPorts returns the IP addresses with the port. It leaves out texts that are no IP addresses.
func addrPorts(texts []string, port int32) (all []netip.AddrPort) {
	for _, text := range texts {
		if ip, err := netip.ParseAddr(text); err == nil && port > 0 && port <= 65535 {
			all = append(all, netip.AddrPortFrom(ip.Unmap(), uint16(port)))
		}
	}
	return all
}

// apiServers caches the addresses of kube-apiserver, to which checks must not connect. Each new
// connection reads the cache, so reading never waits for a lookup.
type apiServers struct {
	lookups   singleflight.Group
	addresses atomic.Pointer[apiServerAddresses]
}

type apiServerAddresses struct {
	addresses []netip.AddrPort
	until     time.Time
}

// apiServersMaxAge is how long the cached addresses are used.
const apiServersMaxAge = time.Minute

// apiServerAddresses returns the cached addresses of kube-apiserver.
func (c *Cluster) apiServerAddresses() []netip.AddrPort {
	if known := c.apiServers.addresses.Load(); known != nil {
		return known.addresses
	}
	return nil
}

// refreshAPIServers refreshes the cached addresses of kube-apiserver if they are too old. It must
// succeed before any query. Concurrent callers share one lookup.
func (c *Cluster) refreshAPIServers(ctx context.Context) error {
	if known := c.apiServers.addresses.Load(); known != nil && c.Clock.Now().Before(known.until) {
		return nil
	}
	lookup := c.apiServers.lookups.DoChan("", func() (any, error) {
		addresses, err := c.readAPIServers(context.WithoutCancel(ctx))
		if err == nil {
			c.apiServers.addresses.Store(&apiServerAddresses{addresses, c.Clock.Now().Add(apiServersMaxAge)})
		}
		return nil, err
	})
	select {
	case result := <-lookup:
		return result.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readAPIServers reads the addresses of kube-apiserver: those of its endpoints and the cluster IPs
// of its Service.
func (c *Cluster) readAPIServers(ctx context.Context) ([]netip.AddrPort, error) {
	name := types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}
	var service corev1.Service
	if err := c.Reader.Get(ctx, name, &service); err != nil {
		return nil, fmt.Errorf("reading the addresses of kube-apiserver: %w", err)
	}
	var known []netip.AddrPort
	for _, port := range service.Spec.Ports {
		at, err := c.readyEndpoints(ctx, name, port)
		if err != nil {
			return nil, err
		}
		for _, e := range at {
			known = append(known, e.at)
		}
		known = slices.Concat(known, addrPorts(service.Spec.ClusterIPs, port.Port))
	}
	return known, nil
}

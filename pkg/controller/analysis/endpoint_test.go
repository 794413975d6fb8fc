// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/analysis"
)

// podAt is a pod that runs, as its kubelet says.
func podAt(namespace, name string, ips ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	for _, ip := range ips {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return p
}

func ended(p *corev1.Pod) *corev1.Pod {
	p.Status.Phase = corev1.PodSucceeded
	return p
}

// leadTo names a pod as the target of each endpoint.
func leadTo(s *discoveryv1.EndpointSlice, kind, namespace, name string) *discoveryv1.EndpointSlice {
	for i := range s.Endpoints {
		s.Endpoints[i].TargetRef = &corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name}
	}
	return s
}

// A Service is asked at addresses of running pods of its namespace only, whatever an
// EndpointSlice says. Here they are on this machine, which is refused when it is dialled.
func TestEndpointsArePods(t *testing.T) {
	t.Parallel()
	const dialled, none = "api.shop.svc is on this machine", "service api has no endpoint that is a running pod of namespace shop; an administrator may add api.shop.svc to --source-hosts, so that other endpoints are asked"
	slice := func() *discoveryv1.EndpointSlice { return endpoints("shop", "api", "127.0.0.1:8080") }
	for name, test := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"a pod":                         {[]client.Object{leadTo(slice(), "Pod", "shop", "p"), podAt("shop", "p", "127.0.0.1")}, dialled},
		"a pod of an unnamed namespace": {[]client.Object{leadTo(slice(), "Pod", "", "p"), podAt("shop", "p", "127.0.0.1")}, dialled},
		"its second address":            {[]client.Object{leadTo(slice(), "Pod", "shop", "p"), podAt("shop", "p", "fd00::1", "127.0.0.1")}, dialled},
		"as IPv4 in IPv6": {[]client.Object{
			leadTo(endpoints("shop", "api", "[::ffff:127.0.0.1]:8080"), "Pod", "shop", "p"), podAt("shop", "p", "127.0.0.1"),
		}, dialled},
		"no pod":               {[]client.Object{slice(), podAt("shop", "p", "127.0.0.1")}, none},
		"another address":      {[]client.Object{leadTo(slice(), "Pod", "shop", "p"), podAt("shop", "p", "10.0.0.1")}, none},
		"a pod without one":    {[]client.Object{leadTo(slice(), "Pod", "shop", "p"), podAt("shop", "p")}, none},
		"a pod that has ended": {[]client.Object{leadTo(slice(), "Pod", "shop", "p"), ended(podAt("shop", "p", "127.0.0.1"))}, none},
		"a pod that is gone":   {[]client.Object{leadTo(slice(), "Pod", "shop", "p")}, none},
		"another namespace's":  {[]client.Object{leadTo(slice(), "Pod", "bank", "p"), podAt("bank", "p", "127.0.0.1")}, none},
		"a node":               {[]client.Object{leadTo(slice(), "Node", "", "p"), podAt("shop", "p", "127.0.0.1")}, none},
		"one of several": {[]client.Object{
			leadTo(endpoints("shop", "api", "10.0.0.1:8080", "10.0.0.2:8080", "127.0.0.1:8080"), "Pod", "shop", "p"), podAt("shop", "p", "127.0.0.1"),
		}, dialled},
	} {
		c, _ := clusterOf(t, append(test.objects, service("shop", "api", 80))...)
		for k := range 3 {
			_, err := c.QueryService(t.Context(), "shop", rollouts.HTTPCheck{Service: "api"}, analysis.Window{Start: time.Unix(1_800_000_000+5*int64(k), 0), Length: 5 * time.Second})
			if err == nil || !strings.HasPrefix(describe(err), test.want) {
				t.Errorf("%s: got %v, want %q", name, err, test.want)
			}
		}
	}
}

// Consecutive windows ask one endpoint after the other, whatever the length of a window. The first
// window of a step may be shorter, and the next one asks the next endpoint all the same.
func TestEndpointsTakeTurns(t *testing.T) {
	t.Parallel()
	for pods := 1; pods <= 6; pods++ {
		var asked []int
		objects := []client.Object{service("shop", "web", 80)}
		for i := range pods {
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = append(asked, i) }))
			t.Cleanup(server.Close)
			slice := endpoints("shop", "web", strings.TrimPrefix(server.URL, "http://"))
			slice.Name = fmt.Sprint("web-", i)
			objects = append(objects, slice)
		}
		for _, every := range []time.Duration{time.Second, 5 * time.Second, 7 * time.Second, 30 * time.Second, time.Minute} {
			c, _ := clusterOf(t, objects...) // which has no answers in its cache
			asked = nil
			whole := time.Unix(1_800_000_000, 0).Truncate(every)
			for k := range 2 * pods {
				start := whole.Add(time.Duration(k) * every)
				if k == 0 {
					start = whole.Add(every - time.Second)
				}
				if _, err := c.QueryService(t.Context(), "shop", rollouts.HTTPCheck{Service: "web"}, analysis.Window{Start: start, Length: every}); err != nil {
					t.Fatal(err)
				}
			}
			first := asked[:pods]
			if all := slices.Compact(slices.Sorted(slices.Values(first))); len(all) != pods || !slices.Equal(asked[pods:], first) {
				t.Errorf("windows of %s ask %d pods in the order %v", every, pods, asked)
			}
		}
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	podPort = "8080"
	// drainsFor is the annotation with the drain time of a pod.
	drainsFor = "test.weir/drains"
	// workTime is the duration of a request, so that requests are in flight when their pod is
	// deleted.
	workTime = 5 * time.Millisecond
)

// podServers runs a server for each pod that is Ready and not being deleted.
//
// A server stops as soon as it observes the deletion of its pod, as a program without a delay on
// SIGTERM does: its port is closed, so that the kernel refuses connections; idle connections are
// closed; requests in flight are answered. If pods drain, the server stops when the pod is gone, as
// a program does that gets SIGTERM after a preStop hook.
type podServers struct {
	mu      sync.Mutex
	servers map[types.UID]*http.Server
	ports   map[types.UID]net.Listener
	// failing is the share of requests that all versions of a namespace fail.
	failing sync.Map
	// counters are the counters of the serving pods, for their metrics.
	counters map[types.UID]*counters
	faults   []error
}

// counters are the counters of one pod. They start at zero when its container restarts.
type counters struct {
	namespace, pod, version, address string

	mu      sync.Mutex
	ok, bad int
	// failingUntil is when the pod begins to answer again after a restart.
	failingUntil time.Time
}

// count counts a request, and reports whether the pod fails it.
func (c *counters) count(fails bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	fails = fails || time.Now().Before(c.failingUntil)
	if fails {
		c.bad++
	} else {
		c.ok++
	}
	return fails
}

// write writes the counters as an exporter does.
func (c *counters) write(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(w, "# TYPE http_requests_total counter\nhttp_requests_total{code=\"200\"} %d\nhttp_requests_total{code=\"500\"} %d\n", c.ok, c.bad)
}

// openPods serves for the pods of all namespaces until ctx ends.
func openPods(ctx context.Context, client kubernetes.Interface) (*podServers, error) {
	p := &podServers{servers: map[types.UID]*http.Server{}, ports: map[types.UID]net.Listener{}, counters: map[types.UID]*counters{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    p.see,
		UpdateFunc: func(_, now any) { p.see(now) },
		DeleteFunc: p.gone,
	})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("reading %s: %w", kind, context.Cause(ctx))
		}
	}
	return p, nil
}

func (p *podServers) see(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch serving := p.ports[pod.UID] != nil; {
	case ready(pod) && !serving:
		if err := p.open(pod); err != nil {
			p.faults = append(p.faults, err)
			fmt.Fprintln(os.Stderr, "dataplane:", err)
		}
	case !ready(pod) && !drains(pod) && serving:
		p.close(pod.UID)
	}
}

func (p *podServers) gone(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	if pod, ok := object.(*corev1.Pod); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.close(pod.UID)
	}
}

// open is called with the lock held.
func (p *podServers) open(pod *corev1.Pod) error {
	port, err := net.Listen("tcp", net.JoinHostPort(pod.Status.PodIP, podPort))
	if err != nil {
		return fmt.Errorf("opening the port of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	version := versionOf(&pod.Spec)
	answer, share, takes := strings.Join([]string{pod.Namespace, pod.Name, version}, " "), failureShare(version), answerTime(version)
	counted := &counters{namespace: pod.Namespace, pod: pod.Name, version: version, address: port.Addr().String()}
	p.counters[pod.UID] = counted
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			counted.write(w)
			return
		}
		<-time.After(takes)
		if all, _ := p.failing.Load(pod.Namespace); counted.count(rand.Float64() < max(share, all.(float64))) {
			http.Error(w, answer, http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, answer)
	})}
	p.failing.LoadOrStore(pod.Namespace, 0.0)
	p.ports[pod.UID], p.servers[pod.UID] = port, server
	go func() { _ = server.Serve(port) }() // the server ends because the port is closed
	return nil
}

// close stops the server. The caller holds the lock. The port is closed on return, because the next
// pod may get the same address.
func (p *podServers) close(uid types.UID) {
	port, server := p.ports[uid], p.servers[uid]
	if port == nil {
		return
	}
	delete(p.ports, uid)
	delete(p.servers, uid)
	delete(p.counters, uid)
	_ = port.Close() // the remaining steps are the same
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close() // this is 2000 times the duration of a request
		}
	}()
}

// ready reports whether a pod is an endpoint.
func ready(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.PodIP == "" {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// drains reports whether a pod is being deleted and serves until then.
func drains(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.Annotations[drainsFor] != ""
}

// serverError returns an error of the servers themselves, which Weir did not cause.
func (p *podServers) serverError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.faults...)
}

// versionOf is the tag of the image.
func versionOf(spec *corev1.PodSpec) string {
	image := spec.Containers[0].Image
	return image[strings.LastIndex(image, ":")+1:]
}

// failureShare is the share of requests that a version fails: 0.2 for fails20.
func failureShare(version string) float64 {
	percent, err := strconv.ParseFloat(strings.TrimPrefix(version, "fails"), 64)
	if err != nil {
		return 0
	}
	return percent / 100
}

// answerTime is how long a version takes to answer.
func answerTime(version string) time.Duration {
	if version == "slow" {
		return workTime + 300*time.Millisecond
	}
	return workTime
}

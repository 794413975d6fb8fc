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
	// drainsFor is the annotation of pods that drain, and says for how long.
	drainsFor = "test.weir/drains"
	// workTime is how long an answer takes, so that some are being made when
	// their pod is told to end.
	workTime = 5 * time.Millisecond
)

// podServers has a server for each pod that is Ready and not yet to end.
//
// A server ends the moment the deletion of its pod is seen, as a program without
// any delay on SIGTERM does: its port is closed, so that connecting is refused by
// the kernel; idle connections are closed; requests that are being answered are
// answered. Where pods drain, it ends so when the pod is gone, as a program does
// that is sent SIGTERM after a preStop hook.
type podServers struct {
	mu      sync.Mutex
	servers map[types.UID]*http.Server
	ports   map[types.UID]net.Listener
	// failing is the share of requests that all versions of a namespace fail.
	failing sync.Map
	// counters are what the pods that serve have counted, for their metrics.
	counters map[types.UID]*counters
	faults   []error
}

// counters are those of one pod. They begin at zero if its container restarts.
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
	go func() { _ = server.Serve(port) }() // it ends because the port is closed
	return nil
}

// close is called with the lock held. The port is closed when it returns, since
// the next pod may get the same address.
func (p *podServers) close(uid types.UID) {
	port, server := p.ports[uid], p.servers[uid]
	if port == nil {
		return
	}
	delete(p.ports, uid)
	delete(p.servers, uid)
	delete(p.counters, uid)
	_ = port.Close() // what is left to do is the same
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close() // a request that takes 2000 times its time is not worth waiting for
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

// drains reports whether a pod is to end, and serves until then.
func drains(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.Annotations[drainsFor] != ""
}

// serverError is what went wrong with the servers themselves, for which Weir is not to blame.
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

// failureShare is the share of requests that a version fails: that of fails20 is 0.2.
func failureShare(version string) float64 {
	percent, err := strconv.ParseFloat(strings.TrimPrefix(version, "fails"), 64)
	if err != nil {
		return 0
	}
	return percent / 100
}

// answerTime is how long an answer of a version takes.
func answerTime(version string) time.Duration {
	if version == "slow" {
		return workTime + 300*time.Millisecond
	}
	return workTime
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/test/patience"
)

// availabilityGuard watches the pods of an application. It reports a fault when fewer pods are
// ready, or more pods of a version exist, than allowed.
type availabilityGuard struct {
	app  *app
	quit context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	pods   map[string]*corev1.Pod
	floor  int32
	limits map[string]int32
	faults []string
}

func ready(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// watchPods lists the existing pods, and returns when the watch is established.
func watchPods(a *app) *availabilityGuard {
	a.t.Helper()
	ctx, quit := context.WithCancel(context.Background())
	g := &availabilityGuard{app: a, quit: quit, done: make(chan struct{}), pods: map[string]*corev1.Pod{}, limits: map[string]int32{}}
	events, err := g.list(ctx)
	if err != nil {
		quit()
		a.t.Fatal(err)
	}
	go g.follow(ctx, events)
	return g
}

func (g *availabilityGuard) list(ctx context.Context) (watch.Interface, error) {
	var list corev1.PodList
	if err := testEnv.client.List(ctx, &list, client.InNamespace(g.app.namespace)); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	g.mu.Lock()
	clear(g.pods)
	for i := range list.Items {
		g.pods[list.Items[i].Name] = &list.Items[i]
	}
	g.checkPods()
	g.mu.Unlock()
	return testEnv.client.Watch(ctx, &corev1.PodList{}, &client.ListOptions{
		Namespace: g.app.namespace, Raw: listFrom(list.ResourceVersion),
	})
}

func (g *availabilityGuard) follow(ctx context.Context, events watch.Interface) {
	defer close(g.done)
	for {
		for e := range events.ResultChan() {
			g.observePod(e)
		}
		// A killed kube-apiserver restarts soon.
		err := patience.Until(ctx, "the guard watches pods", func(ctx context.Context) (err error) {
			events, err = g.list(ctx)
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				g.fault("the guard cannot watch pods: %v", err)
			}
			return
		}
	}
}

func (g *availabilityGuard) observePod(e watch.Event) {
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.Type == watch.Deleted {
		delete(g.pods, pod.Name)
	} else {
		g.pods[pod.Name] = pod
	}
	g.checkPods()
}

// checkPods reports faults. The caller holds the lock.
func (g *availabilityGuard) checkPods() {
	var n int32
	there := versions{}
	for _, pod := range g.pods {
		if pod.DeletionTimestamp == nil {
			there[versionOf(&pod.Spec)]++
		}
		if ready(pod) {
			n++
		}
	}
	if n < g.floor {
		g.faultLocked("%d pods are ready, want at least %d at all times; pods are %v", n, g.floor, there)
	}
	for version, limit := range g.limits {
		if there[version] > limit {
			g.faultLocked("%d pods of %s, want at most %d at all times; pods are %v", there[version], version, limit, there)
		}
	}
}

func (g *availabilityGuard) fault(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faultLocked(format, args...)
}

func (g *availabilityGuard) faultLocked(format string, args ...any) {
	g.faults = append(g.faults, fmt.Sprintf(format, args...))
}

// atLeast sets how many pods must be ready from now on.
func (g *availabilityGuard) atLeast(n int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.floor = n
	g.checkPods()
}

// whenReady sets how many pods must be ready as soon as the guard observes that many. On a busy
// machine, the guard's watch may lag behind the status of the Deployment.
func (g *availabilityGuard) whenReady(n int32) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var seen int32
	for _, pod := range g.pods {
		if ready(pod) {
			seen++
		}
	}
	if seen < n {
		return fmt.Errorf("the guard sees %d ready pods of %d", seen, n)
	}
	g.floor = n
	return nil
}

// atMost limits the pods of a version from now on.
func (g *availabilityGuard) atMost(version string, n int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limits = maps.Clone(g.limits)
	g.limits[version] = n
	g.checkPods()
}

func (g *availabilityGuard) stop(t *testing.T) {
	g.quit()
	<-g.done
	const most = 5
	for i, fault := range g.faults {
		if i == most {
			t.Errorf("guard: and %d more", len(g.faults)-most)
			break
		}
		t.Errorf("guard: %s", fault)
	}
}

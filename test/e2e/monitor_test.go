// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/patience"
)

// observationDelay is how long a size may be seen after the owner has changed it, by a
// native controller that has not.
const observationDelay = 3 * time.Second

// monitor judges, while users do what they like, by what it sees of pods,
// ReplicaSets and Rollouts. It is told what sizes are wanted and which decisions
// were sent, and asks Weir nothing.
type monitor struct {
	app  *app
	quit context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex
	pods   map[string]*corev1.Pod
	sets   map[string]*appsv1.ReplicaSet
	bounds podBounds
	gate   stepGate
	over   time.Time
	faults []string
	// trace is how sizes changed of late.
	trace []string
}

// podBounds are how many pods there may be.
type podBounds struct {
	// size is what the owner wants. high is the highest that somebody may still
	// act on, and floor how many pods must be ready.
	size, high, floor int32
	since             time.Time
	// full is since when there are as many ready pods as there should be.
	full           time.Time
	surge, missing int32
	// beside is how many pods may be beside those of the Deployment, of any size.
	beside func(size int32) int32
	// extra is how many an extra Deployment may have; it never shrinks.
	extra func(size int32) int32
	most  int32
}

func zeroPods(int32) int32 { return 0 }

// startMonitor begins with what is there.
func startMonitor(a *app) *monitor {
	a.t.Helper()
	ctx, quit := context.WithCancel(context.Background())
	w := &monitor{app: a, quit: quit, bounds: podBounds{
		size: a.plan.replicas, high: a.plan.replicas, most: a.plan.replicas, floor: a.plan.replicas - a.plan.unavailable,
		surge: a.plan.surge, missing: a.plan.unavailable, beside: zeroPods, extra: zeroPods,
	}}
	w.gate = stepGate{sent: map[string]sentDecision{}}
	w.watch(ctx, &corev1.PodList{}, func() { w.pods = map[string]*corev1.Pod{} }, w.seePod)
	w.watch(ctx, &appsv1.ReplicaSetList{}, func() { w.sets = map[string]*appsv1.ReplicaSet{} }, w.seeSet)
	w.watch(ctx, &v1beta1.RolloutList{}, func() {}, w.seeRollout)
	return w
}

// watch follows a kind for as long as the application lives. Weir's own server
// comes and goes, so a watch that ends begins anew with all that is there.
func (w *monitor) watch(ctx context.Context, list client.ObjectList, forget func(), see func(watch.Event)) {
	w.done.Go(func() {
		for ctx.Err() == nil {
			w.mu.Lock()
			forget()
			w.mu.Unlock()
			events, err := testEnv.client.Watch(ctx, list, client.InNamespace(w.app.namespace))
			if err != nil {
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
				continue
			}
			w.follow(events, see)
		}
	})
}

func (w *monitor) follow(events watch.Interface, see func(watch.Event)) {
	defer events.Stop()
	for e := range events.ResultChan() {
		w.mu.Lock()
		see(e)
		w.mu.Unlock()
	}
}

// scale is told before a size is written. Pods that are still coming cannot be
// missed, so the floor rises when they are there.
func (w *monitor) scale(size int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &w.bounds
	b.size, b.high, b.most, b.since = size, max(b.high, size), max(b.most, size), time.Now()
	b.floor = min(b.floor, max(0, size-b.missing))
	w.note("the owner wants size %d", size)
}

// startRelease is told of a release: nothing is left of the one before.
func (w *monitor) startRelease() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bounds.most = w.bounds.size
}

func (w *monitor) seePod(e watch.Event) {
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return
	}
	if e.Type == watch.Deleted {
		delete(w.pods, pod.Name)
	} else {
		w.pods[pod.Name] = pod
	}
	var n, own, there int32
	for _, p := range w.pods {
		if ready(p) {
			n++
			if !strings.HasPrefix(p.Name, extraPrefix) {
				own++
			}
		}
		if p.DeletionTimestamp == nil {
			there++
		}
	}
	b := &w.bounds
	w.raiseFloor(own)
	if !w.gate.held {
		b.floor = min(b.floor, n) // the native controller is on its own
	}
	// A new watch tells of the pods that are there one after the other.
	if n < b.floor && e.Type != watch.Added {
		w.fault("%d pods are ready, which must never be less than %d: %s", n, b.floor, w.describe())
		b.floor = n // told once
	}
	w.checkPodCount(there)
}

// checkPodCount wants no more pods than sizes allow. Pods come and go a little later
// than sizes change, so sizes are judged at once and pods when it lasts.
func (w *monitor) checkPodCount(there int32) {
	b := &w.bounds
	limit := b.high + max(1, b.surge, b.beside(b.high)) + b.extra(b.most)
	switch {
	case there <= limit:
		w.over = time.Time{}
	case w.over.IsZero():
		w.over = time.Now()
	case time.Since(w.over) > patience.Scaled(2*observationDelay):
		w.fault("there are %d pods, which must not be more than %d: %s", there, limit, w.describe())
		w.over = time.Time{}
	}
}

// extraPrefix begins the names of pods of an extra Deployment. They come on top of those of
// the workload, and go with the version that they run.
const extraPrefix = name + "-canary-"

// raiseFloor lifts the floor to what the size wants when as many pods of the workload have been
// ready for a moment: what was decided before may still take a pod that was not.
func (w *monitor) raiseFloor(ready int32) {
	b := &w.bounds
	switch want := b.size - b.missing; {
	case ready < want || w.requestedPods() < want:
		b.full = time.Time{}
	case b.full.IsZero():
		b.full = time.Now()
	case want > b.floor && time.Since(b.full) > time.Second:
		b.floor = want
	}
}

// requestedPods is how many pods the sets are to have whose size the native controller
// has seen. One that was told less a moment ago still has pods that will go.
func (w *monitor) requestedPods() int32 {
	var n int32
	for _, s := range w.sets {
		if s.Status.ObservedGeneration == s.Generation {
			n += *s.Spec.Replicas
		}
	}
	return n
}

func (w *monitor) seeSet(e watch.Event) {
	rs, ok := e.Object.(*appsv1.ReplicaSet)
	if !ok {
		return
	}
	if e.Type == watch.Deleted {
		delete(w.sets, rs.Name)
		return
	}
	was := w.sets[rs.Name]
	w.sets[rs.Name] = rs
	if was == nil || *was.Spec.Replicas != *rs.Spec.Replicas {
		w.note("%s", w.describe())
	}
	var own, extra int32
	for _, s := range w.sets {
		if isExtra(s) {
			extra = max(extra, *s.Spec.Replicas)
		} else {
			own += *s.Spec.Replicas
		}
	}
	b := &w.bounds
	allowed := func(size int32) int32 { return size + max(1, b.surge, b.beside(size)) }
	if own <= allowed(b.size) && time.Since(b.since) > patience.Scaled(observationDelay) {
		b.high = b.size
	}
	// Only a size that grew can be too much; one that is still to shrink waits.
	if was != nil && *was.Spec.Replicas >= *rs.Spec.Replicas {
		return
	}
	if limit := allowed(b.high); own > limit && !isExtra(rs) {
		w.fault("sizes are %d together, which must never be more than %d: %s", own, limit, w.describe())
	}
	if limit := b.extra(b.most); extra > limit {
		w.fault("the extra Deployment has %d pods, which must never be more than %d: %s", extra, limit, w.describe())
	}
}

func isExtra(rs *appsv1.ReplicaSet) bool { return strings.HasPrefix(rs.Name, name+"-canary-") }

// describe is what is seen of ReplicaSets and pods.
func (w *monitor) describe() string {
	var s strings.Builder
	fmt.Fprintf(&s, "size %d, ", w.bounds.size)
	for _, rs := range w.sets {
		if *rs.Spec.Replicas > 0 || rs.Status.Replicas > 0 {
			fmt.Fprintf(&s, "%s of %s %d/%d/%d, ", rs.Name, versionOf(&rs.Spec.Template.Spec),
				*rs.Spec.Replicas, rs.Status.Replicas, rs.Status.ReadyReplicas)
		}
	}
	there, up := versions{}, versions{}
	for _, p := range w.pods {
		if p.DeletionTimestamp == nil {
			there[versionOf(&p.Spec)]++
		}
		if ready(p) {
			up[versionOf(&p.Spec)]++
		}
	}
	fmt.Fprintf(&s, "pods %v, ready %v", there, up)
	return s.String()
}

// note keeps what led to a fault. It is called with the lock held.
func (w *monitor) note(format string, args ...any) {
	const most = 60
	w.trace = append(w.trace, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	w.trace = w.trace[max(0, len(w.trace)-most):]
}

// fault is called with the lock held.
func (w *monitor) fault(format string, args ...any) {
	w.note(format, args...)
	w.faults = append(w.faults, w.app.namespace+": "+strings.Join(w.trace, "\n    "))
}

// stop ends the watches and tells what was wrong.
func (w *monitor) stop() {
	w.quit()
	w.done.Wait()
	for _, fault := range w.faults {
		w.app.t.Error(fault)
	}
}

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

// observationDelay is how long the native controller may take to observe a size that the owner has
// changed.
const observationDelay = 3 * time.Second

// monitor checks pods, ReplicaSets and Rollouts while users take random actions. The test reports
// the desired sizes and the sent decisions to the monitor, which does not use Weir's status for its
// bounds.
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
	// trace contains the recent changes of sizes.
	trace []string
}

// podBounds are the allowed numbers of pods.
type podBounds struct {
	// size is what the owner wants. high is the highest size that a controller may still act on,
	// and floor how many pods must be ready.
	size, high, floor int32
	since             time.Time
	// full is the time since which enough pods are ready.
	full           time.Time
	surge, missing int32
	// beside is how many pods may exist in addition to those of the Deployment, by size.
	beside func(size int32) int32
	// extra is the largest allowed size of an extra Deployment; the size never decreases.
	extra func(size int32) int32
	most  int32
}

func zeroPods(int32) int32 { return 0 }

// startMonitor starts the watches with the existing objects.
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

// watch watches a kind as long as the application exists. Weir's own server restarts, so an ended
// watch begins again with all existing objects.
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

// scale is called before a size is written. New pods are not ready yet, so the floor rises when
// they are.
func (w *monitor) scale(size int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &w.bounds
	b.size, b.high, b.most, b.since = size, max(b.high, size), max(b.most, size), time.Now()
	b.floor = min(b.floor, max(0, size-b.missing))
	w.note("the owner wants size %d", size)
}

// startRelease is called at the start of a release, when nothing of the previous one is left.
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
		b.floor = min(b.floor, n) // the native controller scales the Deployment
	}
	// A new watch reports the existing pods one after the other.
	if n < b.floor && e.Type != watch.Added {
		w.fault("%d pods are ready, want at least %d at all times: %s", n, b.floor, w.describe())
		b.floor = n // report it once
	}
	w.checkPodCount(there)
}

// checkPodCount reports a fault if there are more pods than the sizes allow. Pods are created and
// deleted a little later than sizes change, so too many pods are reported only if they stay.
func (w *monitor) checkPodCount(there int32) {
	b := &w.bounds
	limit := b.high + max(1, b.surge, b.beside(b.high)) + b.extra(b.most)
	switch {
	case there <= limit:
		w.over = time.Time{}
	case w.over.IsZero():
		w.over = time.Now()
	case time.Since(w.over) > patience.Scaled(2*observationDelay):
		w.fault("there are %d pods, want at most %d: %s", there, limit, w.describe())
		w.over = time.Time{}
	}
}

// extraPrefix is the name prefix of the pods of an extra Deployment. They exist in addition to
// those of the workload, and are deleted with the version that they run.
const extraPrefix = name + "-canary-"

// raiseFloor raises the floor to that of the desired size when enough pods of the workload have
// been ready for a moment, because an earlier decision may still delete a pod that was not ready.
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

// requestedPods returns the number of pods of the ReplicaSets whose size the native controller has
// observed. A ReplicaSet that was scaled down a moment ago still has pods that will be deleted.
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
	// Only a size that increased can exceed the limit; a size that must decrease may do so later.
	if was != nil && *was.Spec.Replicas >= *rs.Spec.Replicas {
		return
	}
	if limit := allowed(b.high); own > limit && !isExtra(rs) {
		w.fault("the sizes together are %d, want at most %d at all times: %s", own, limit, w.describe())
	}
	if limit := b.extra(b.most); extra > limit {
		w.fault("the extra Deployment has %d pods, want at most %d at all times: %s", extra, limit, w.describe())
	}
}

func isExtra(rs *appsv1.ReplicaSet) bool { return strings.HasPrefix(rs.Name, name+"-canary-") }

// describe returns the observed ReplicaSets and pods as text.
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

// note adds a line to the trace. The caller holds the lock.
func (w *monitor) note(format string, args ...any) {
	const most = 60
	w.trace = append(w.trace, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	w.trace = w.trace[max(0, len(w.trace)-most):]
}

// fault records a fault. The caller holds the lock.
func (w *monitor) fault(format string, args ...any) {
	w.note(format, args...)
	w.faults = append(w.faults, w.app.namespace+": "+strings.Join(w.trace, "\n    "))
}

// stop ends the watches and reports the faults.
func (w *monitor) stop() {
	w.quit()
	w.done.Wait()
	for _, fault := range w.faults {
		w.app.t.Error(fault)
	}
}

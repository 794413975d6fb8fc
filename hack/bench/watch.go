// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// watcher watches the applications of a namespace, and records in timelines what happens to them.
type watcher struct {
	system system
	// image is the image that is released.
	image string
	cache cache.Cache
	// onWait is called for each step that begins to wait.
	onWait func(name string, step int32)

	mu        sync.Mutex
	timelines map[string]*timeline
	// sizes are the replicas of ReplicaSets of the image, by application and ReplicaSet.
	sizes map[string]map[string]int32
	// lastChange is when an object was last seen to change.
	lastChange time.Time
	standstill time.Duration
}

func newWatcher(s system, image string) *watcher {
	return &watcher{
		system: s, image: image, onWait: func(string, int32) {},
		timelines: map[string]*timeline{}, sizes: map[string]map[string]int32{}, lastChange: time.Now(),
	}
}

// start watches until the context ends. It returns when all objects of the namespace were read.
func (w *watcher) start(ctx context.Context, b *bench, namespace string) error {
	var err error
	w.cache, err = cache.New(b.plane.config, cache.Options{
		Scheme: b.client.Scheme(), DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return fmt.Errorf("creating a cache: %w", err)
	}
	release, _ := w.system.newRelease()
	for _, watched := range []struct {
		kind   client.Object
		record func(any)
	}{{&appsv1.Deployment{}, w.recordObject}, {&appsv1.ReplicaSet{}, w.recordObject}, {release, w.recordRelease}} {
		informer, err := w.cache.GetInformer(ctx, watched.kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching: %w", err)
		}
		handlers := toolscache.ResourceEventHandlerFuncs{AddFunc: watched.record, UpdateFunc: func(_, o any) { watched.record(o) }}
		if _, err := informer.AddEventHandler(handlers); err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	go func() { _ = w.cache.Start(ctx) }() // it ends only with the context
	if !w.cache.WaitForCacheSync(ctx) {
		return fmt.Errorf("filling the cache: %w", context.Cause(ctx))
	}
	return nil
}

// begin starts the timeline of an application.
func (w *watcher) begin(name string) *timeline {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &timeline{sent: time.Now(), done: make(chan struct{})}
	w.timelines[name] = t
	return t
}

func (w *watcher) timeline(name string) *timeline {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.timelines[name]
}

func (w *watcher) longestStandstill() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.standstill
}

func (w *watcher) recordChange() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.standstill = max(w.standstill, now.Sub(w.lastChange))
	w.lastChange = now
}

// recordObject records a Deployment that is held, or a ReplicaSet that is scaled.
func (w *watcher) recordObject(o any) {
	w.recordChange()
	switch o := o.(type) {
	case *appsv1.Deployment:
		if t := w.timeline(o.Name); t != nil && o.Annotations[rollouts.AnnotationInProgress] != "" {
			t.recordHold()
		}
	case *appsv1.ReplicaSet:
		if t, size := w.updatedReplicas(o); t != nil {
			t.recordSize(size)
		}
	}
}

// recordRelease records the state of a release.
func (w *watcher) recordRelease(o any) {
	w.recordChange()
	r, ok := o.(client.Object)
	if !ok {
		return
	}
	t, s := w.timeline(r.GetName()), w.system.state(r)
	if t == nil {
		return
	}
	if t.recordStep(s.step, s.waits) {
		w.onWait(r.GetName(), s.step)
	}
	t.recordHealth(s.healthy)
}

// updatedReplicas returns how many pods of the released image the application of a ReplicaSet
// requests, and its timeline.
func (w *watcher) updatedReplicas(rs *appsv1.ReplicaSet) (*timeline, int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := rs.Labels[appLabel]
	if w.timelines[name] == nil || rs.Spec.Template.Spec.Containers[0].Image != w.image {
		return nil, 0
	}
	if w.sizes[name] == nil {
		w.sizes[name] = map[string]int32{}
	}
	w.sizes[name][rs.Name] = *rs.Spec.Replicas
	var sum int32
	for _, n := range w.sizes[name] {
		sum += n
	}
	return w.timelines[name], sum
}

// timeline has the times at which the events of one release were seen.
type timeline struct {
	mu sync.Mutex

	// sent is when the update of the template was sent, and answered when the update returned.
	sent, answered time.Time
	held           time.Time
	// scaled is when pods of the new version were first requested, and size how many are requested now.
	scaled time.Time
	size   int32
	// waits are the steps at which the release waited, in order.
	waits []stepWait
	// step and paused are the latest state.
	step   int32
	paused bool
	// progressing is true once the release was seen to be in progress.
	progressing bool
	healthy     time.Time
	// done is closed when the release is healthy again.
	done chan struct{}
}

// stepWait is a step at which a release waited.
type stepWait struct {
	step int32
	// since is when the step was seen to wait.
	since, approved time.Time
	// grown is when more pods were requested after the approval than size.
	grown time.Time
	size  int32
	// lost is how many approvals were lost.
	lost int
}

func (t *timeline) recordAnswer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered = time.Now()
}

func (t *timeline) recordHold() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held.IsZero() {
		t.held = time.Now()
	}
}

// recordSize records how many pods of the new version are requested.
func (t *timeline) recordSize(size int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if size > 0 && t.scaled.IsZero() {
		t.scaled = now
	}
	if n := len(t.waits); n > 0 {
		if w := &t.waits[n-1]; !w.approved.IsZero() && w.grown.IsZero() && size > w.size {
			w.grown = now
		}
	}
	t.size = size
}

// recordStep reports whether the step has begun to wait.
func (t *timeline) recordStep(step int32, waits bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.step, t.paused = step, waits
	if n := len(t.waits); !waits || n > 0 && t.waits[n-1].step == step {
		return false
	}
	t.waits = append(t.waits, stepWait{step: step, since: time.Now(), size: t.size})
	return true
}

// recordHealth records the end of the release.
func (t *timeline) recordHealth(healthy bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !healthy {
		t.progressing = true
		return
	}
	if t.progressing && t.healthy.IsZero() {
		t.healthy = time.Now()
		close(t.done)
	}
}

// recordApproval records that an approval of the step is about to be sent.
func (t *timeline) recordApproval(step int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &t.waits[len(t.waits)-1]
	if w.step != step {
		return
	}
	if !w.approved.IsZero() {
		w.lost++
	}
	w.approved, w.size = time.Now(), t.size
}

// waitsAt reports whether the step still waits unchanged. An approved step that is merely slow
// has another state.
func (t *timeline) waitsAt(step int32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.paused && t.step == step
}

// isScaled reports whether the hold and the first batch were seen.
func (t *timeline) isScaled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.scaled.IsZero() && !t.held.IsZero()
}

// durations returns the durations of one release by the rows of the table.
func (t *timeline) durations() map[string][]time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := map[string][]time.Duration{}
	add := func(row string, from, to time.Time) {
		if !from.IsZero() && !to.IsZero() {
			d[row] = append(d[row], to.Sub(from))
		}
	}
	add(rowAnswered, t.sent, t.answered)
	add(rowHeld, t.sent, t.held)
	add(rowScaled, t.sent, t.scaled)
	for i, w := range t.waits {
		if i == 0 {
			add(rowFirstWait, t.sent, w.since)
		} else {
			add(rowNextWait, t.waits[i-1].approved, w.since)
		}
		add(rowNextScaled, w.approved, w.grown)
	}
	if n := len(t.waits); n > 0 {
		add(rowHealthy, t.waits[n-1].approved, t.healthy)
	}
	add(rowRelease, t.sent, t.healthy)
	return d
}

// approvals returns how many approvals were sent, without repetitions, and how many were lost.
func (t *timeline) approvals() (sent, lost int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.waits {
		if !w.approved.IsZero() {
			sent++
		}
		lost += w.lost
	}
	return sent, lost
}

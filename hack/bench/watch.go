// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := clientscheme.AddToScheme(s); err != nil {
		return nil, err
	}
	return s, errors.Join(v1beta1.AddToScheme(s), apiextensionsv1.AddToScheme(s))
}

// watcher sees what happens to applications of one namespace, by watches only,
// and tells the timelines.
type watcher struct {
	system system
	cache  cache.Cache
	// paused is told of each step that begins to wait.
	paused func(name string, step int32)

	mu    sync.Mutex
	lines map[string]*timeline
	// version is the image that is released.
	version string
	// sizes are those of ReplicaSets of that image, by application and name.
	sizes map[string]map[string]int32
	// last is when something was seen to change, and still the longest time, in this
	// round, that nothing did.
	last  time.Time
	still time.Duration
}

func (w *watcher) expect(version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version, w.lines, w.sizes = version, map[string]*timeline{}, map[string]map[string]int32{}
	w.last, w.still = time.Now(), 0
}

// standstill is the longest time that nothing has changed.
func (w *watcher) standstill() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.still
}

func (w *watcher) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.still = max(w.still, now.Sub(w.last))
	w.last = now
}

func (w *watcher) begin(name string) *timeline {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := begin()
	w.lines[name] = t
	return t
}

func (w *watcher) line(name string) *timeline {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines[name]
}

// start watches until the context ends.
func (w *watcher) start(ctx context.Context, b *bench, namespace string) error {
	var err error
	w.cache, err = cache.New(b.place.config, cache.Options{
		Scheme: b.client.Scheme(), DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return fmt.Errorf("making a cache: %w", err)
	}
	release, _ := w.system.release()
	for _, watched := range []struct {
		kind client.Object
		saw  func(any)
	}{{&appsv1.Deployment{}, w.saw}, {&appsv1.ReplicaSet{}, w.saw}, {release, w.sawRelease}} {
		informer, err := w.cache.GetInformer(ctx, watched.kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching: %w", err)
		}
		handlers := toolscache.ResourceEventHandlerFuncs{AddFunc: watched.saw, UpdateFunc: func(_, o any) { watched.saw(o) }}
		if _, err := informer.AddEventHandler(handlers); err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	go func() { _ = w.cache.Start(ctx) }() // it ends with the context only
	if !w.cache.WaitForCacheSync(ctx) {
		return fmt.Errorf("reading what is there: %w", context.Cause(ctx))
	}
	return nil
}

func (w *watcher) saw(o any) {
	w.changed()
	switch o := o.(type) {
	case *appsv1.Deployment:
		if t := w.line(o.Name); t != nil && o.Annotations[rollouts.AnnotationInProgress] != "" {
			t.sawHold()
		}
	case *appsv1.ReplicaSet:
		if t, size := w.size(o); t != nil {
			t.sawSize(size)
		}
	}
}

// sawRelease is told of the kind that has the state of a release.
func (w *watcher) sawRelease(o any) {
	w.changed()
	r, ok := o.(client.Object)
	if !ok {
		return
	}
	t, s := w.line(r.GetName()), w.system.state(r)
	if t == nil {
		return
	}
	if t.sawState(s.step, s.paused) {
		w.paused(r.GetName(), s.step)
	}
	t.sawPhase(s.healthy)
}

// size is how many pods of the new version an application wants.
func (w *watcher) size(rs *appsv1.ReplicaSet) (*timeline, int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := rs.Labels[of]
	if w.lines[name] == nil || rs.Spec.Template.Spec.Containers[0].Image != w.version {
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
	return w.lines[name], sum
}

func version(round int) string { return image + strconv.Itoa(round) }

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// IndexWriter writes the indexes. All Rollouts of a namespace share one, so the
// writes of many at once would conflict: edits that arrive during one write go
// into the next write together.
type IndexWriter struct {
	mu sync.Mutex
	// open are the indexes that are being written, by namespace.
	open map[string]*indexQueue
}

// indexQueue has the edits of an index that is being written.
type indexQueue struct {
	// turn is held during a write.
	turn chan struct{}
	// waiting and users are guarded by the IndexWriter.
	waiting []*edit
	users   int
	// last is what was written, which the cache may not show yet. It is guarded by turn.
	last *corev1.ConfigMap
}

// edit is what one pass wants changed.
type edit struct {
	entry *Entry
	// key is to be the only one of its Rollout; empty where none is.
	key  string
	done bool
	err  error
}

// Enter makes the entry right.
func (s Server) Enter(ctx context.Context, e *Entry) error {
	return enter(ctx, s, &edit{entry: e, key: e.Key})
}

// Remove removes the entry.
func (s Server) Remove(ctx context.Context, e *Entry) error { return enter(ctx, s, &edit{entry: e}) }

func enter(ctx context.Context, s Server, e *edit) error {
	all := s.IndexWriter
	if all == nil {
		all = &IndexWriter{}
	}
	r := all.join(e)
	defer all.leave(e.entry.Rollout.Namespace)
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if !e.done {
		enterAll(ctx, s, r, all.take(r))
	}
	return e.err
}

func (all *IndexWriter) join(e *edit) *indexQueue {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.open == nil {
		all.open = map[string]*indexQueue{}
	}
	r := all.open[e.entry.Rollout.Namespace]
	if r == nil {
		r = &indexQueue{turn: make(chan struct{}, 1)}
		all.open[e.entry.Rollout.Namespace] = r
	}
	r.users++
	r.waiting = append(r.waiting, e)
	return r
}

func (all *IndexWriter) leave(namespace string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	r := all.open[namespace]
	if r.users--; r.users == 0 {
		delete(all.open, namespace)
	}
}

func (all *IndexWriter) take(r *indexQueue) []*edit {
	all.mu.Lock()
	defer all.mu.Unlock()
	edits := r.waiting
	r.waiting = nil
	return edits
}

// enterAll writes edits together, and one by one where that is refused for
// another reason than that somebody else wrote first: it may be about one of them.
func enterAll(ctx context.Context, s Server, r *indexQueue, edits []*edit) {
	err := enterInto(ctx, s, r, edits)
	alone := err != nil && !Moved(err) && len(edits) > 1
	for i, e := range edits {
		e.done = true
		switch {
		case alone:
			// Without an error the entry may still have one: it no longer stands.
			if err := enterInto(ctx, s, r, edits[i:i+1]); err != nil {
				e.err = err
			}
		case e.err == nil:
			e.err = err
		}
	}
}

// enterInto writes edits at the newest version that is known. What was decided
// from an older one stands only if that says the same of its Rollout. What names no
// Rollout goes in the same write.
func enterInto(ctx context.Context, s Server, r *indexQueue, edits []*edit) error {
	index := r.last
	for _, e := range edits {
		index = newer(index, e.entry.Index)
	}
	keys := map[string]string{}
	for _, e := range edits {
		if e.err = nil; !e.entry.stands(index) {
			e.err = apierrors.NewConflict(corev1.Resource("configmaps"), rollouts.IndexName, fmt.Errorf("its entry of %s changed", e.entry.Rollout.Name))
			continue
		}
		keys[e.entry.Rollout.Name] = e.key
	}
	strangers, err := strangers(ctx, s.Reader, edits[0].entry.Rollout.Namespace, index)
	if err != nil {
		return err
	}
	for name := range strangers {
		if _, ours := keys[name]; !ours {
			keys[name] = ""
		}
	}
	for _, c := range workload.UpdateIndex(index, edits[0].entry.Rollout.Namespace, keys) {
		stored, err := putIndex(ctx, s, c)
		switch {
		case err == nil:
			r.last = stored
		case Moved(err):
			r.last = nil
			return err
		default:
			return err
		}
	}
	return nil
}

// putIndex stores an index and returns it; nil if it is gone. It is all ours, so
// that it is sent whole: to compare thousands of entries, on both sides, is what
// a patch would take most of its time for.
func putIndex(ctx context.Context, s Server, c object.Change) (*corev1.ConfigMap, error) {
	want, ok := c.Want.(*corev1.ConfigMap)
	if !ok {
		return nil, s.write(ctx, c)
	}
	if c.Base == nil {
		return want, s.doing(ctx, "Creating", want, func() error { return s.Create(ctx, want) })
	}
	return want, s.doing(ctx, "Changing", want, func() error { return s.Update(ctx, want) })
}

// newer is the index with the later version; one that is not there has none.
func newer(a, b *corev1.ConfigMap) *corev1.ConfigMap {
	if a == nil || b != nil && older(a.ResourceVersion, b.ResourceVersion) {
		return b
	}
	return a
}

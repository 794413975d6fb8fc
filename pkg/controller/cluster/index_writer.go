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

// IndexWriter writes the indexes. All Rollouts of a namespace share one index, so concurrent writes would
// conflict. Therefore edits that arrive during a write are written together in the next write.
type IndexWriter struct {
	mu sync.Mutex
	// queues has the indexes that are being written, by namespace.
	queues map[string]*indexQueue
}

// indexQueue has the edits of an index that is being written.
type indexQueue struct {
	// lock is held during a write. It is a channel so that waiting can end with the context.
	lock chan struct{}
	// pending and users are guarded by the mutex of the IndexWriter.
	pending []*edit
	users   int
	// lastWritten is the index that was written last, which the cache may not show yet. It is guarded by lock.
	lastWritten *corev1.ConfigMap
}

// edit is a change of one entry.
type edit struct {
	entry *IndexEntry
	// key becomes the only key of the Rollout; empty to remove the Rollout from the index.
	key  string
	done bool
	err  error
}

// AddToIndex corrects the entry.
func (s Server) AddToIndex(ctx context.Context, e *IndexEntry) error {
	return writeEdit(ctx, s, &edit{entry: e, key: e.Key})
}

// RemoveFromIndex removes the entry.
func (s Server) RemoveFromIndex(ctx context.Context, e *IndexEntry) error {
	return writeEdit(ctx, s, &edit{entry: e})
}

func writeEdit(ctx context.Context, s Server, e *edit) error {
	all := s.IndexWriter
	if all == nil {
		all = &IndexWriter{}
	}
	r := all.join(e)
	defer all.leave(e.entry.Rollout.Namespace)
	select {
	case r.lock <- struct{}{}:
		defer func() { <-r.lock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if !e.done {
		writeEdits(ctx, s, r, all.takePending(r))
	}
	return e.err
}

func (all *IndexWriter) join(e *edit) *indexQueue {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.queues == nil {
		all.queues = map[string]*indexQueue{}
	}
	r := all.queues[e.entry.Rollout.Namespace]
	if r == nil {
		r = &indexQueue{lock: make(chan struct{}, 1)}
		all.queues[e.entry.Rollout.Namespace] = r
	}
	r.users++
	r.pending = append(r.pending, e)
	return r
}

func (all *IndexWriter) leave(namespace string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	r := all.queues[namespace]
	if r.users--; r.users == 0 {
		delete(all.queues, namespace)
	}
}

func (all *IndexWriter) takePending(r *indexQueue) []*edit {
	all.mu.Lock()
	defer all.mu.Unlock()
	edits := r.pending
	r.pending = nil
	return edits
}

// writeEdits writes edits together. If the server refuses the write for another reason than a conflict,
// writeEdits writes the edits one by one, because only one of them may be the cause.
func writeEdits(ctx context.Context, s Server, r *indexQueue, edits []*edit) {
	err := tryEdits(ctx, s, r, edits)
	alone := err != nil && !IsConflict(err) && len(edits) > 1
	for i, e := range edits {
		e.done = true
		switch {
		case alone:
			// tryEdits may also set e.err: the entry is no longer current.
			if err := tryEdits(ctx, s, r, edits[i:i+1]); err != nil {
				e.err = err
			}
		case e.err == nil:
			e.err = err
		}
	}
}

// tryEdits writes edits at the newest known version of the index. An edit that was decided from an older
// version fails with a conflict, unless both versions have the same entries for its Rollout. The same write
// removes the entries of deleted Rollouts.
func tryEdits(ctx context.Context, s Server, r *indexQueue, edits []*edit) error {
	index := r.lastWritten
	for _, e := range edits {
		index = newerIndex(index, e.entry.Index)
	}
	keys := map[string]string{}
	for _, e := range edits {
		if e.err = nil; !e.entry.isCurrent(index) {
			e.err = apierrors.NewConflict(corev1.Resource("configmaps"), rollouts.IndexName, fmt.Errorf("its entry of %s changed", e.entry.Rollout.Name))
			continue
		}
		keys[e.entry.Rollout.Name] = e.key
	}
	strangers, err := staleNames(ctx, s.Reader, edits[0].entry.Rollout.Namespace, index)
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
			r.lastWritten = stored
		case IsConflict(err):
			r.lastWritten = nil
			return err
		default:
			return err
		}
	}
	return nil
}

// putIndex stores an index and returns it; nil if the index was deleted. Only Weir writes the index, so an
// update can replace it. A patch would compare thousands of entries here and on the server.
func putIndex(ctx context.Context, s Server, c object.Change) (*corev1.ConfigMap, error) {
	want, ok := c.Want.(*corev1.ConfigMap)
	if !ok {
		return nil, s.write(ctx, c)
	}
	if c.Base == nil {
		return want, s.runWrite(ctx, "Creating", want, func() error { return s.Create(ctx, want) })
	}
	return want, s.runWrite(ctx, "Changing", want, func() error { return s.Update(ctx, want) })
}

// newerIndex returns the index with the higher resourceVersion. Either may be nil.
func newerIndex(a, b *corev1.ConfigMap) *corev1.ConfigMap {
	if a == nil || b != nil && isOlder(a.ResourceVersion, b.ResourceVersion) {
		return b
	}
	return a
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/tools/cache"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/fetch"
	"github.com/weir-rollouts/weir/pkg/view"
)

// openTree is a tree that is being watched. All its viewers share one set of watches.
type openTree struct {
	trees *REST
	key   types.NamespacedName
	// signal has an entry if an object of the tree has changed.
	signal chan struct{}
	cancel context.CancelFunc
	// done is closed when the watches end.
	done <-chan struct{}
	// number is the sequence number of the tree, in the order in which trees were opened.
	number int

	// The loop (run) owns the following fields.
	informers map[view.Read]*subscription
	running   sync.WaitGroup

	mu      sync.Mutex
	viewers map[*viewer]bool
	// joinCount counts all viewers that ever joined.
	joinCount int
	latest    *snapshot
	// evicted is true if the tree was closed to give its slot to another user.
	evicted bool
}

// snapshot is the observed state of the tree at one moment.
type snapshot struct {
	// seen is nil before the first observation, and after the Rollout was deleted.
	seen *view.Observed
	gone bool
	at   time.Time
	why  func(context.Context) (*rollouts.RolloutWhy, error)
	// next is closed when a newer snapshot exists.
	next chan struct{}

	mu sync.Mutex
	// trees are the trees that were built from this snapshot, by the objects that their viewers may not
	// see.
	trees map[string]view.Tree
}

// treeFor returns the tree for viewers with the permissions of seen.
func (s *snapshot) treeFor(seen *view.Observed) view.Tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := seen.ForbiddenReads()
	tree, ok := s.trees[key]
	if !ok {
		tree = view.BuildTree(seen, s.at)
		s.trees[key] = tree
	}
	return tree
}

// addViewer adds a viewer to the tree of a Rollout. The first viewer opens the tree.
func (t *REST) addViewer(ctx context.Context, key types.NamespacedName) (*viewer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.openTrees[key]
	if o == nil {
		if err := t.freeSlot(holder{user: userName(ctx), namespace: key.Namespace}); err != nil {
			return nil, err
		}
		o = t.startTree(key) //nolint:contextcheck // the watches outlive the request of the first viewer
	}
	v := newViewer(ctx, o)
	o.mu.Lock()
	o.viewers[v] = true
	o.joinCount++
	v.number = o.joinCount
	o.mu.Unlock()
	o.requestUpdate()
	go v.run(ctx)
	return v, nil
}

// startTree opens a tree and its watches. They have a context of their own, because viewers come and go.
func (t *REST) startTree(key types.NamespacedName) *openTree {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // see above
	t.opened++
	o := &openTree{
		done: ctx.Done(), number: t.opened, trees: t, key: key, signal: make(chan struct{}, 1), cancel: cancel,
		informers: map[view.Read]*subscription{}, viewers: map[*viewer]bool{},
		latest: &snapshot{next: make(chan struct{})},
	}
	t.openTrees[key] = o
	t.ends.Go(func() {
		defer o.running.Wait()
		defer o.stopUnused(nil)
		o.run(ctx)
	})
	return o
}

// closeTree ends the watches of a tree. The caller holds the lock.
func (t *REST) closeTree(key types.NamespacedName, o *openTree) {
	o.cancel()
	if t.openTrees[key] == o {
		delete(t.openTrees, key)
	}
}

// closeIdle closes a tree without viewers, and reports whether there was one. The caller holds the lock.
func (t *REST) closeIdle() bool {
	for key, o := range t.openTrees {
		if o.isUnwatched() {
			t.closeTree(key, o)
			return true
		}
	}
	return false
}

func (o *openTree) isUnwatched() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.viewers) == 0
}

// removeViewer removes a viewer. Some time after the last viewer left, the watches end, unless another viewer has
// joined.
func (o *openTree) removeViewer(v *viewer) {
	o.mu.Lock()
	delete(o.viewers, v)
	isLast, joined := len(o.viewers) == 0, o.joinCount
	o.mu.Unlock()
	if !isLast {
		return
	}
	o.trees.Clock.AfterFunc(idleTimeout, func() {
		o.trees.mu.Lock()
		defer o.trees.mu.Unlock()
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.joinCount == joined {
			o.trees.closeTree(o.key, o)
		}
	})
}

// requestUpdate requests a new snapshot.
func (o *openTree) requestUpdate() {
	select {
	case o.signal <- struct{}{}:
	default: // a request is pending already
	}
}

// run makes a new snapshot whenever an object changes, at most once per minInterval. It also makes one every
// recheckInterval, because the permissions of viewers may change.
func (o *openTree) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := o.trees.Clock.Now()
		again := o.observe(ctx)
		if !o.wait(ctx, o.signal, again) {
			return
		}
		if !o.wait(ctx, nil, minInterval-o.trees.Clock.Since(began)) {
			return
		}
	}
}

// wait waits for a signal or for a time, and reports whether the tree is still open.
func (o *openTree) wait(ctx context.Context, signal <-chan struct{}, most time.Duration) bool {
	timer := o.trees.Clock.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-signal:
	case <-timer.C():
	}
	return true
}

// observe publishes a new snapshot, and returns how soon to make the next one.
func (o *openTree) observe(ctx context.Context) time.Duration {
	next := &snapshot{at: o.trees.Clock.Now(), next: make(chan struct{}), trees: map[string]view.Tree{}}
	bounded, cancel := context.WithTimeout(ctx, fetch.Timeout)
	defer cancel()
	read := &observation{openTree: o, used: map[view.Read]bool{}}
	found, err := read.informerReader(ctx)(bounded, view.Read{Kind: v1beta1.SchemeGroupVersion.WithKind("Rollout"), Name: o.key.Name})
	if err != nil {
		return minInterval // try again
	}
	if next.gone = len(found) == 0; !next.gone {
		r, _ := found[0].(*rollouts.Rollout)
		next.seen = view.NewObserved(r)
		fetch.ReadAll(bounded, next.seen, read.informerReader(ctx), o.anyViewerMay)
		next.why = o.trees.Why(genericapirequest.WithNamespace(bounded, o.key.Namespace), r)
	}
	o.stopUnused(read.used)
	o.publishSnapshot(next)
	if next.gone {
		return recheckInterval
	}
	if again := next.treeFor(next.seen).RequeueAfter; again > 0 {
		return min(again, recheckInterval)
	}
	return recheckInterval
}

// anyViewerMay reports whether at least one viewer may see the objects.
func (o *openTree) anyViewerMay(r view.Read) bool {
	o.mu.Lock()
	viewers := make([]*viewer, 0, len(o.viewers))
	for v := range o.viewers {
		viewers = append(viewers, v)
	}
	o.mu.Unlock()
	for _, v := range viewers {
		if v.may(r) {
			return true
		}
	}
	return false
}

func (o *openTree) publishSnapshot(next *snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.latest.next)
	o.latest = next
}

func (o *openTree) currentSnapshot() *snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.latest
}

// observation is one observation of a tree. It records which informers the tree needs.
type observation struct {
	*openTree
	lock sync.Mutex
	used map[view.Read]bool
}

// informerReader returns a reader of the informers' caches. The informers run as long as the tree is open.
func (r *observation) informerReader(ctx context.Context) fetch.Reader {
	return func(bounded context.Context, read view.Read) ([]object.Object, error) {
		i, err := r.informer(ctx, read)
		if err != nil {
			return nil, err
		}
		return i.objects(bounded)
	}
}

func (r *observation) informer(ctx context.Context, read view.Read) (*informer, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.used[read] = true
	if s := r.informers[read]; s != nil {
		return s.informer, nil
	}
	create := func() (*informer, error) { return r.trees.newInformer(r.key.Namespace, read) }
	s, err := r.trees.informers.subscribe(selection{r.key.Namespace, read}, create, r.requestUpdate) //nolint:contextcheck // the informer outlives the tree
	if err != nil {
		return nil, err
	}
	r.informers[read] = s
	r.running.Go(func() {
		if cache.WaitFor(ctx, "", s.HasSyncedChecker()) {
			r.requestUpdate() // an empty list causes no event
		}
	})
	return s.informer, nil
}

// stopUnused ends the subscriptions that the tree no longer needs.
func (o *openTree) stopUnused(used map[view.Read]bool) {
	for read, s := range o.informers {
		if !used[read] {
			s.end()
			delete(o.informers, read)
		}
	}
}

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
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/look"
	"github.com/weir-rollouts/weir/pkg/view"
)

// open is a tree that somebody watches. However many do, there is one set of watches.
type open struct {
	trees *REST
	key   types.NamespacedName
	// signal has an entry when something has changed.
	signal chan struct{}
	cancel context.CancelFunc
	// done is closed when the watches end.
	done <-chan struct{}
	// number is the sequence number of the tree, in the order in which trees were opened.
	number int

	// What follows belongs to the loop.
	informers map[view.Read]*subscription
	running   sync.WaitGroup

	mu      sync.Mutex
	viewers map[*viewer]bool
	// joined counts all that have ever joined.
	joined int
	latest *snapshot
	// ousted is true if the tree was closed so that another user can have its slot.
	ousted bool
}

// snapshot is what was seen at a moment.
type snapshot struct {
	// seen is nil before the first look, and when the Rollout is gone.
	seen *view.Observed
	gone bool
	at   time.Time
	why  func(context.Context) (*rollouts.RolloutWhy, error)
	// next is closed when there is a newer one.
	next chan struct{}

	mu sync.Mutex
	// trees are those that were made of it, by what their viewers may not see.
	trees map[string]view.Tree
}

// tree is the one of viewers that see as much.
func (s *snapshot) tree(seen *view.Observed) view.Tree {
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

// join adds a viewer to the tree of a Rollout, which is opened for the first one.
func (t *REST) join(ctx context.Context, key types.NamespacedName) (*viewer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.open[key]
	if o == nil {
		if err := t.makeRoom(holder{user: userOf(ctx), namespace: key.Namespace}); err != nil {
			return nil, err
		}
		o = t.start(key) //nolint:contextcheck // the watches outlive the request of the first viewer
	}
	v := newViewer(ctx, o)
	o.mu.Lock()
	o.viewers[v] = true
	o.joined++
	v.number = o.joined
	o.mu.Unlock()
	o.wake()
	go v.run(ctx)
	return v, nil
}

// start opens a tree and its watches. Their context is not that of a viewer, since viewers
// come and go.
func (t *REST) start(key types.NamespacedName) *open {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // see above
	t.opened++
	o := &open{
		done: ctx.Done(), number: t.opened, trees: t, key: key, signal: make(chan struct{}, 1), cancel: cancel,
		informers: map[view.Read]*subscription{}, viewers: map[*viewer]bool{},
		latest: &snapshot{next: make(chan struct{})},
	}
	t.open[key] = o
	t.ends.Go(func() {
		defer o.running.Wait()
		defer o.stopUnused(nil)
		o.run(ctx)
	})
	return o
}

// close ends the watches of a tree. The caller has the lock.
func (t *REST) close(key types.NamespacedName, o *open) {
	o.cancel()
	if t.open[key] == o {
		delete(t.open, key)
	}
}

// closeIdle closes one that nobody looks at, and reports whether there was one. The caller
// has the lock.
func (t *REST) closeIdle() bool {
	for key, o := range t.open {
		if o.unwatched() {
			t.close(key, o)
			return true
		}
	}
	return false
}

func (o *open) unwatched() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.viewers) == 0
}

// leave takes a viewer off. Some time after the last one, the watches end, unless another
// has joined meanwhile.
func (o *open) leave(v *viewer) {
	o.mu.Lock()
	delete(o.viewers, v)
	isLast, joined := len(o.viewers) == 0, o.joined
	o.mu.Unlock()
	if !isLast {
		return
	}
	o.trees.Clock.AfterFunc(lingering, func() {
		o.trees.mu.Lock()
		defer o.trees.mu.Unlock()
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.joined == joined {
			o.trees.close(o.key, o)
		}
	})
}

// wake has the tree made again soon.
func (o *open) wake() {
	select {
	case o.signal <- struct{}{}:
	default: // it will be
	}
}

// run makes the tree whenever something changes, and not more often than it may. Now and
// then it looks what viewers may see.
func (o *open) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := o.trees.Clock.Now()
		again := o.look(ctx)
		if !o.wait(ctx, o.signal, again) {
			return
		}
		if !o.wait(ctx, nil, gathering-o.trees.Clock.Since(began)) {
			return
		}
	}
}

// wait waits for a signal or for a time, and reports whether to go on.
func (o *open) wait(ctx context.Context, signal <-chan struct{}, most time.Duration) bool {
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

// look makes what all viewers see together, and returns how soon to look again.
func (o *open) look(ctx context.Context) time.Duration {
	next := &snapshot{at: o.trees.Clock.Now(), next: make(chan struct{}), trees: map[string]view.Tree{}}
	bounded, cancel := context.WithTimeout(ctx, look.Patience)
	defer cancel()
	read := &round{open: o, used: map[view.Read]bool{}}
	found, err := read.from(ctx)(bounded, view.Read{Kind: v1beta1.SchemeGroupVersion.WithKind("Rollout"), Name: o.key.Name})
	if err != nil {
		return gathering // what cannot be read now is read again
	}
	if next.gone = len(found) == 0; !next.gone {
		r, _ := found[0].(*rollouts.Rollout)
		next.seen = view.NewObserved(r)
		look.All(bounded, next.seen, read.from(ctx), o.may)
		next.why = o.trees.Why(genericapirequest.WithNamespace(bounded, o.key.Namespace), r)
	}
	o.stopUnused(read.used)
	o.publish(next)
	if next.gone {
		return recheck
	}
	if again := next.tree(next.seen).RequeueAfter; again > 0 {
		return min(again, recheck)
	}
	return recheck
}

// may reports whether some viewer may see it.
func (o *open) may(r view.Read) bool {
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

func (o *open) publish(next *snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.latest.next)
	o.latest = next
}

func (o *open) current() *snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.latest
}

// round is one look: it notes which informers are needed.
type round struct {
	*open
	lock sync.Mutex
	used map[view.Read]bool
}

// from reads what the informers have. They run for as long as the tree is open.
func (r *round) from(ctx context.Context) look.Reader {
	return func(bounded context.Context, read view.Read) ([]object.Object, error) {
		i, err := r.informer(ctx, read)
		if err != nil {
			return nil, err
		}
		return i.objects(bounded)
	}
}

func (r *round) informer(ctx context.Context, read view.Read) (*informer, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.used[read] = true
	if s := r.informers[read]; s != nil {
		return s.informer, nil
	}
	create := func() (*informer, error) { return r.trees.newInformer(r.key.Namespace, read) }
	s, err := r.trees.informers.subscribe(selection{r.key.Namespace, read}, create, r.wake) //nolint:contextcheck // the informer outlives the tree
	if err != nil {
		return nil, err
	}
	r.informers[read] = s
	r.running.Go(func() {
		if cache.WaitFor(ctx, "", s.HasSyncedChecker()) {
			r.wake() // also where there are no objects
		}
	})
	return s.informer, nil
}

// stopUnused ends the watches that no viewer needs any more.
func (o *open) stopUnused(used map[view.Read]bool) {
	for read, s := range o.informers {
		if !used[read] {
			s.end()
			delete(o.informers, read)
		}
	}
}

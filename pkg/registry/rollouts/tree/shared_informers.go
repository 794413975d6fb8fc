// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"fmt"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/weir-rollouts/weir/pkg/view"
)

// sharedInformers are the informers of all open trees. Trees in one namespace that read the same,
// such as all budgets of the namespace, share one informer and its cache.
type sharedInformers struct {
	mu  sync.Mutex
	all map[selection]*informer
	// running has the informers that run.
	running sync.WaitGroup
}

// selection is what an informer watches.
type selection struct {
	namespace string
	read      view.Read
}

// subscription is the use of an informer by one tree.
type subscription struct {
	*informer
	shared    *sharedInformers
	selection selection
	handler   cache.ResourceEventHandlerRegistration
}

// subscribe returns an informer that calls wake for each change until the subscription ends. The
// first subscription starts it: newInformer returns one that does not run yet.
func (s *sharedInformers) subscribe(of selection, newInformer func() (*informer, error), wake func()) (*subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.all[of]
	if i == nil {
		var err error
		if i, err = newInformer(); err != nil {
			return nil, err
		}
		var ctx context.Context
		ctx, i.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // it outlives the tree that is the first to need it
		if s.all == nil {
			s.all = map[selection]*informer{}
		}
		s.all[of] = i
		s.running.Go(func() { i.RunWithContext(ctx) })
	}
	handler, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake() }, UpdateFunc: func(any, any) { wake() }, DeleteFunc: func(any) { wake() },
	})
	if err != nil {
		s.stopUnused(of)
		return nil, err
	}
	i.subscriptions++
	return &subscription{informer: i, shared: s, selection: of, handler: handler}, nil
}

// end ends the subscription, and the informer with the last one.
func (u *subscription) end() {
	u.shared.mu.Lock()
	defer u.shared.mu.Unlock()
	if err := u.RemoveEventHandler(u.handler); err != nil { // not with a handler of the informer
		utilruntime.HandleError(fmt.Errorf("ending a watch of %s: %w", u.selection.read.Resource().Resource, err))
	}
	u.subscriptions--
	u.shared.stopUnused(u.selection)
}

// stopUnused stops an informer without subscriptions. The caller has the lock.
func (s *sharedInformers) stopUnused(of selection) {
	if i := s.all[of]; i.subscriptions == 0 {
		i.cancel()
		delete(s.all, of)
	}
}

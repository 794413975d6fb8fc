// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"sync"
	"time"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// readTimeout bounds a read that nobody waits for any more.
const readTimeout = 3 * time.Second

// reads asks the store for the Rollouts of a namespace. Whoever reaches the port can
// cause that, so one read runs at a time, and all who ask about a namespace before
// it begins share it.
type reads struct {
	source Source
	one    chan struct{}
	*waiting
}

// waiting are the reads that did not begin yet, by namespace.
type waiting struct {
	sync.Mutex
	next map[string]*read
}

// read is done when its channel is closed.
type read struct {
	done chan struct{}
	list *rollouts.RolloutList
	err  error
}

func newReads(source Source) reads {
	return reads{source: source, one: make(chan struct{}, 1), waiting: &waiting{next: map[string]*read{}}}
}

// list is what was stored at a moment after it was asked for.
func (r reads) list(ctx context.Context, namespace string) (*rollouts.RolloutList, error) {
	r.Lock()
	n := r.next[namespace]
	if n == nil {
		n = &read{done: make(chan struct{})}
		r.next[namespace] = n
		go r.run(context.WithoutCancel(ctx), namespace, n)
	}
	r.Unlock()
	select {
	case <-n.done:
		return n.list, n.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run reads when its turn has come. A list without a version is what etcd has now.
func (r reads) run(ctx context.Context, namespace string, n *read) {
	r.one <- struct{}{}
	defer func() { <-r.one }()
	r.Lock()
	delete(r.next, namespace)
	r.Unlock()
	defer close(n.done)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	obj, err := r.source.List(genericapirequest.WithNamespace(ctx, namespace), &metainternalversion.ListOptions{})
	if err != nil {
		n.err = err
		return
	}
	if list, ok := obj.(*rollouts.RolloutList); ok {
		n.list = list
		return
	}
	n.err = fmt.Errorf("got a %T", obj)
}

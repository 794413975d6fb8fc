// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
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
	shared singleflight.Group
}

func newReads(source Source) *reads {
	return &reads{source: source, one: make(chan struct{}, 1)}
}

// list is what was stored at a moment after it was asked for.
func (r *reads) list(ctx context.Context, namespace string) (*rollouts.RolloutList, error) {
	read := r.shared.DoChan(namespace, func() (any, error) {
		r.one <- struct{}{}
		defer func() { <-r.one }()
		r.shared.Forget(namespace) // who asks from now on needs a later read
		return r.read(context.WithoutCancel(ctx), namespace)
	})
	select {
	case result := <-read:
		if list, ok := result.Val.(*rollouts.RolloutList); ok || result.Err != nil {
			return list, result.Err
		}
		return nil, fmt.Errorf("got a %T", result.Val)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read is without a version: it answers with what etcd has now.
func (r *reads) read(ctx context.Context, namespace string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return r.source.List(genericapirequest.WithNamespace(ctx, namespace), &metainternalversion.ListOptions{})
}

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

// readTimeout limits a read. The read continues after its callers' contexts end, because others may share
// it.
const readTimeout = 3 * time.Second

// liveReader lists the Rollouts of a namespace from etcd. Unauthenticated clients of the port can cause
// such reads. So one read runs at a time, and all callers that ask about a namespace before its read begins
// share that read.
type liveReader struct {
	source Source
	slot   chan struct{}
	group  singleflight.Group
}

func newLiveReader(source Source) *liveReader {
	return &liveReader{source: source, slot: make(chan struct{}, 1)}
}

// list returns the Rollouts that were stored at some moment after list was called.
func (r *liveReader) list(ctx context.Context, namespace string) (*rollouts.RolloutList, error) {
	read := r.group.DoChan(namespace, func() (any, error) {
		r.slot <- struct{}{}
		defer func() { <-r.slot }()
		r.group.Forget(namespace) // callers that come after the read began need a later read
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

// read lists without a resourceVersion, which means a read from etcd.
func (r *liveReader) read(ctx context.Context, namespace string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return r.source.List(genericapirequest.WithNamespace(ctx, namespace), &metainternalversion.ListOptions{})
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// externalInterval is how often the database size of an external etcd is read.
const externalInterval = 2 * time.Second

// External is an external etcd (--etcd-servers). Weir never compacts or defragments it on
// demand, because others may use it.
type External struct {
	client *clientv3.Client
	limit  int64

	mu    sync.Mutex
	usage Usage
}

// NewExternal returns an external etcd. The parameter limit is used if etcd does not report its
// own size limit, as versions before 3.6 do not; 0 means that the limit is unknown.
func NewExternal(r Remote, limit int64) (*External, error) {
	c, err := r.newClient(r.Servers...)
	if err != nil {
		return nil, err
	}
	return &External{client: c, limit: limit}, nil
}

// Close closes the client.
func (e *External) Close() error { return e.client.Close() }

// Usage implements Backend.
func (e *External) Usage() Usage {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.usage
}

// Lag implements Backend. It returns the interval between two reads plus the timeout of one.
func (e *External) Lag() time.Duration { return 2 * externalInterval }

// Reclaim implements Backend.
func (e *External) Reclaim(context.Context, func(Usage) bool) bool { return false }

// Follow reads the usage until the context ends. It calls asked after the first attempt, even
// a failed one.
func (e *External) Follow(ctx context.Context, asked func()) {
	var once sync.Once
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := e.readUsage(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Reading the database size of the external etcd failed")
		}
		once.Do(asked)
	}, externalInterval)
}

// readUsage stores the largest usage and the smallest limit of all members. A member that does not
// answer is ignored, because it serves no requests either.
func (e *External) readUsage(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, externalInterval)
	defer cancel()
	var used Usage
	var errs []error
	for _, server := range e.client.Endpoints() {
		status, err := e.client.Status(ctx, server)
		if err != nil {
			errs = append(errs, fmt.Errorf("asking %s: %w", server, err))
			continue
		}
		limit := status.DbSizeQuota
		if limit <= 0 {
			limit = e.limit
		}
		if used.Limit == 0 || limit > 0 && limit < used.Limit {
			used.Limit = limit
		}
		used.Size, used.InUse = max(used.Size, status.DbSize), max(used.InUse, status.DbSizeInUse)
		for _, failure := range status.Errors {
			used.Full = used.Full || strings.Contains(failure, "NOSPACE")
		}
	}
	if len(errs) < len(e.client.Endpoints()) {
		e.mu.Lock()
		e.usage = used
		e.mu.Unlock()
	}
	return errors.Join(errs...)
}

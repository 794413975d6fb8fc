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

// externalInterval is how often an etcd elsewhere is asked how much of it is used.
const externalInterval = 2 * time.Second

// External is an etcd elsewhere. Nothing is reclaimed there from here: it may have more users.
type External struct {
	client *clientv3.Client
	limit  int64

	mu    sync.Mutex
	usage Usage
}

// NewExternal asks an etcd elsewhere how much of it is used. The limit counts if etcd does not
// tell its own, as before version 3.6; 0 if it is not known.
func NewExternal(r Remote, limit int64) (*External, error) {
	c, err := r.client(r.Servers...)
	if err != nil {
		return nil, err
	}
	return &External{client: c, limit: limit}, nil
}

// Close ends the client.
func (e *External) Close() error { return e.client.Close() }

// Usage implements Backend.
func (e *External) Usage() Usage {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.usage
}

// Lag implements Backend: the time between two questions, and as long for an answer.
func (e *External) Lag() time.Duration { return 2 * externalInterval }

// Reclaim implements Backend.
func (e *External) Reclaim(context.Context, func(Usage) bool) bool { return false }

// Follow asks until the context ends. It calls asked when it has asked once.
func (e *External) Follow(ctx context.Context, asked func()) {
	var once sync.Once
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := e.ask(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Asking etcd how much of it is used")
		}
		once.Do(asked)
	}, externalInterval)
}

// ask keeps the usage of the member that has least room. A member that does not answer does
// not count, since it does not serve either.
func (e *External) ask(ctx context.Context) error {
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

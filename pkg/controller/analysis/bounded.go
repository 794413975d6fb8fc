// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// requestTimeout is how long one request to kube-apiserver may take. Without it a request that
// is never answered would block a worker forever.
const requestTimeout = 10 * time.Second

// boundedReader reads with a timeout for each request.
type boundedReader struct{ client.Reader }

func (b boundedReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return b.Reader.Get(ctx, key, obj, opts...)
}

func (b boundedReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return b.Reader.List(ctx, list, opts...)
}

// boundedWriter creates with a timeout for each request.
type boundedWriter struct{ client.Writer }

func (b boundedWriter) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return b.Writer.Create(ctx, obj, opts...)
}

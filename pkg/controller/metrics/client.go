// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writeResults are the values of the label result, by the error of a write. The first row that
// matches counts. A write without an error is ok, and an error that matches no row is failed.
var writeResults = []struct {
	name string
	is   func(error) bool
}{
	// Another writer was first. The next reconcile decides again.
	{"conflict", apierrors.IsConflict},
	{"conflict", apierrors.IsAlreadyExists},
	{"gone", apierrors.IsNotFound},
	// Retries do not help.
	{"refused", apierrors.IsForbidden},
	{"refused", apierrors.IsInvalid},
	{"refused", apierrors.IsBadRequest},
	{"refused", apierrors.IsMethodNotSupported},
	{"refused", apierrors.IsRequestEntityTooLargeError},
}

func resultOf(err error) string {
	if err == nil {
		return "ok"
	}
	for _, r := range writeResults {
		if r.is(err) {
			return r.name
		}
	}
	return "failed"
}

// CountWrites returns a client that counts its writes.
func (m *Metrics) CountWrites(c client.Client) client.Client {
	return countingClient{Client: c, metrics: m}
}

type countingClient struct {
	client.Client
	metrics *Metrics
}

func (c countingClient) count(o runtime.Object, verb string, err error) error {
	kind := "unknown"
	if gvk, bad := c.GroupVersionKindFor(o); bad == nil {
		kind = gvk.Kind
	}
	c.metrics.writes.WithLabelValues(kind, verb, resultOf(err)).Inc()
	return err
}

// Create implements client.Writer.
func (c countingClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.count(o, "create", c.Client.Create(ctx, o, opts...))
}

// Update implements client.Writer.
func (c countingClient) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return c.count(o, "update", c.Client.Update(ctx, o, opts...))
}

// Patch implements client.Writer.
func (c countingClient) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.count(o, "patch", c.Client.Patch(ctx, o, patch, opts...))
}

// Delete implements client.Writer.
func (c countingClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return c.count(o, "delete", c.Client.Delete(ctx, o, opts...))
}

// Status implements client.StatusClient.
func (c countingClient) Status() client.SubResourceWriter {
	return countingStatusWriter{SubResourceWriter: c.Client.Status(), client: c}
}

type countingStatusWriter struct {
	client.SubResourceWriter
	client countingClient
}

// Update implements client.SubResourceWriter.
func (s countingStatusWriter) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.client.count(o, "update status", s.SubResourceWriter.Update(ctx, o, opts...))
}

// Patch implements client.SubResourceWriter.
func (s countingStatusWriter) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.client.count(o, "patch status", s.SubResourceWriter.Patch(ctx, o, patch, opts...))
}

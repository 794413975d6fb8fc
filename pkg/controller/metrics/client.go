// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// results say what came of a write, by its error. The first row that fits
// counts; without an error it is ok, and whatever fits none is failed.
var results = []struct {
	name string
	is   func(error) bool
}{
	// Somebody else wrote first: the plan is made anew.
	{"conflict", apierrors.IsConflict},
	{"conflict", apierrors.IsAlreadyExists},
	{"gone", apierrors.IsNotFound},
	// Trying again does not help.
	{"refused", apierrors.IsForbidden},
	{"refused", apierrors.IsInvalid},
	{"refused", apierrors.IsBadRequest},
	{"refused", apierrors.IsMethodNotSupported},
	{"refused", apierrors.IsRequestEntityTooLargeError},
}

func result(err error) string {
	if err == nil {
		return "ok"
	}
	for _, r := range results {
		if r.is(err) {
			return r.name
		}
	}
	return "failed"
}

// Counting is the client, with its writes counted.
func (m *Metrics) Counting(c client.Client) client.Client {
	return counting{Client: c, metrics: m}
}

type counting struct {
	client.Client
	metrics *Metrics
}

func (c counting) count(o runtime.Object, verb string, err error) error {
	kind := "unknown"
	if gvk, bad := c.GroupVersionKindFor(o); bad == nil {
		kind = gvk.Kind
	}
	c.metrics.writes.WithLabelValues(kind, verb, result(err)).Inc()
	return err
}

// Create implements client.Writer.
func (c counting) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return c.count(o, "create", c.Client.Create(ctx, o, opts...))
}

// Update implements client.Writer.
func (c counting) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return c.count(o, "update", c.Client.Update(ctx, o, opts...))
}

// Patch implements client.Writer.
func (c counting) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.count(o, "patch", c.Client.Patch(ctx, o, patch, opts...))
}

// Delete implements client.Writer.
func (c counting) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return c.count(o, "delete", c.Client.Delete(ctx, o, opts...))
}

// Status implements client.StatusClient.
func (c counting) Status() client.SubResourceWriter {
	return countingStatus{SubResourceWriter: c.Client.Status(), of: c}
}

type countingStatus struct {
	client.SubResourceWriter
	of counting
}

// Update implements client.SubResourceWriter.
func (s countingStatus) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.of.count(o, "update status", s.SubResourceWriter.Update(ctx, o, opts...))
}

// Patch implements client.SubResourceWriter.
func (s countingStatus) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.of.count(o, "patch status", s.SubResourceWriter.Patch(ctx, o, patch, opts...))
}

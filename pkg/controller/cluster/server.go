// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Reader reads from informer caches.
type Reader struct {
	client.Client
	// Live reads from the API server.
	Live client.Reader
	// Indexes reads the ConfigMaps rollouts-index, which the policies use, from a separate cache.
	// weir-controller may not read all ConfigMaps.
	Indexes client.Reader
	// WriteTracker has the resourceVersions that the caches must show; nil to not wait for the caches.
	WriteTracker *WriteTracker
	// API discovers which resources the cluster serves.
	API discovery.ServerResourcesInterface
}

// Server reads from informer caches and writes to the API server.
type Server struct {
	Reader
	// IndexWriter writes the indexes.
	IndexWriter *IndexWriter
}

// Create creates an object. It returns no error in a namespace that is being deleted, since the object would
// be deleted anyway.
func (s Server) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	err := s.Client.Create(ctx, o, opts...)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

// Rollout returns a Rollout, or nil when there is none.
func (s Reader) Rollout(ctx context.Context, key types.NamespacedName) (*rollouts.Rollout, error) {
	r, err := getHub[rollouts.Rollout, v1beta1.Rollout](ctx, s, key)
	if r == nil || err != nil {
		return nil, err
	}
	return r, s.WriteTracker.checkFresh(r)
}

// AllRollouts returns a function that lists the Rollouts of all namespaces. They must not be modified,
// because they share memory with the cache.
func AllRollouts(from client.Reader) func(context.Context) ([]*rollouts.Rollout, error) {
	return func(ctx context.Context) ([]*rollouts.Rollout, error) {
		var list v1beta1.RolloutList
		if err := from.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing rollouts: %w", err)
		}
		all := make([]*rollouts.Rollout, 0, len(list.Items))
		for i := range list.Items {
			r, err := convert[rollouts.Rollout](&list.Items[i])
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
		return all, nil
	}
}

// BatchRelease returns a BatchRelease, or nil when there is none.
func (s Reader) BatchRelease(ctx context.Context, key types.NamespacedName) (*rollouts.BatchRelease, error) {
	b, err := getHub[rollouts.BatchRelease, v1beta1.BatchRelease](ctx, s, key)
	if b == nil || err != nil {
		return nil, err
	}
	return b, s.WriteTracker.checkFresh(b)
}

// BatchReleaseOf returns the BatchRelease that has the name of a Rollout, or nil. Another object may own it.
// During a release BatchReleaseOf asks the server if the cache has no BatchRelease of the Rollout. Scenario: a
// BatchRelease was just created and the cache does not show it; an abort that missed it would end before the
// batch begins.
func (s Reader) BatchReleaseOf(ctx context.Context, r *rollouts.Rollout) (*rollouts.BatchRelease, error) {
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	b, err := s.BatchRelease(ctx, key)
	if planner.Owns(r, b) || err != nil {
		return b, err
	}
	if !r.Status.UnderWay() {
		return b, nil
	}
	return getHub[rollouts.BatchRelease, v1beta1.BatchRelease](ctx, s.Live, key)
}

// TrafficRouting returns a TrafficRouting, or nil when there is none.
func (s Reader) TrafficRouting(ctx context.Context, key types.NamespacedName) (*rollouts.TrafficRouting, error) {
	return getHub[rollouts.TrafficRouting, v1alpha1.TrafficRouting](ctx, s, key)
}

// LiveTrafficRouting reads a TrafficRouting from the server, or returns nil when there is none.
func (s Reader) LiveTrafficRouting(ctx context.Context, key types.NamespacedName) (*rollouts.TrafficRouting, error) {
	return getHub[rollouts.TrafficRouting, v1alpha1.TrafficRouting](ctx, s.Live, key)
}

// CommitRollout stores the next status at the resourceVersion that it was planned from, and returns the stored
// Rollout.
func (s Server) CommitRollout(ctx context.Context, r *rollouts.Rollout, status rollouts.RolloutStatus) (*rollouts.Rollout, error) {
	next := r.DeepCopy()
	next.Status = status
	return commitStatus[rollouts.Rollout, v1beta1.Rollout](ctx, s, next)
}

// CommitBatchRelease is CommitRollout for BatchReleases.
func (s Server) CommitBatchRelease(ctx context.Context, b *rollouts.BatchRelease, status rollouts.BatchReleaseStatus) (*rollouts.BatchRelease, error) {
	next := b.DeepCopy()
	next.Status = status
	return commitStatus[rollouts.BatchRelease, v1beta1.BatchRelease](ctx, s, next)
}

// CommitTrafficRouting is CommitRollout for TrafficRoutings.
func (s Server) CommitTrafficRouting(ctx context.Context, r *rollouts.TrafficRouting, status rollouts.TrafficRoutingStatus) (*rollouts.TrafficRouting, error) {
	next := r.DeepCopy()
	next.Status = status
	return commitStatus[rollouts.TrafficRouting, v1alpha1.TrafficRouting](ctx, s, next)
}

// CreateOrUpdateBatchRelease creates the BatchRelease b or, if was is not nil, replaces its spec and status in
// one write. It returns the stored BatchRelease.
func (s Server) CreateOrUpdateBatchRelease(ctx context.Context, was, b *rollouts.BatchRelease) (*rollouts.BatchRelease, error) {
	wire, err := convert[v1beta1.BatchRelease](b)
	if err != nil {
		return nil, err
	}
	if was == nil {
		err = s.Create(ctx, wire)
	} else {
		err = s.recordIfWritten(wire, s.Update(ctx, wire))
	}
	if err != nil {
		return nil, err
	}
	return convert[rollouts.BatchRelease](wire)
}

// recordIfWritten records the resourceVersion of a write that succeeded, and returns err.
func (s Server) recordIfWritten(o client.Object, err error) error {
	if err == nil {
		s.WriteTracker.recordWrite(o)
	}
	return err
}

// DeleteBatchRelease deletes the BatchRelease if it is still the one that was observed. A BatchRelease that was
// created again, or that has got the plan of another release, stays.
func (s Server) DeleteBatchRelease(ctx context.Context, b *rollouts.BatchRelease) error {
	return ignoreNotFound(s.Delete(ctx, MetadataOf(b), client.Preconditions{UID: &b.UID, ResourceVersion: &b.ResourceVersion}))
}

// AddFinalizer adds a finalizer to an object of Weir's API group.
func (s Server) AddFinalizer(ctx context.Context, o object.Object, finalizer string) error {
	if slices.Contains(o.GetFinalizers(), finalizer) {
		return nil
	}
	return s.setFinalizers(ctx, o, append(slices.Clone(o.GetFinalizers()), finalizer))
}

// RemoveFinalizer removes a finalizer from an object of Weir's API group.
func (s Server) RemoveFinalizer(ctx context.Context, o object.Object, finalizer string) error {
	it := func(f string) bool { return f == finalizer }
	return s.setFinalizers(ctx, o, slices.DeleteFunc(slices.Clone(o.GetFinalizers()), it))
}

func (s Server) setFinalizers(ctx context.Context, o object.Object, finalizers []string) error {
	base, want := MetadataOf(o), MetadataOf(o)
	want.SetFinalizers(finalizers)
	return ignoreNotFound(s.Patch(ctx, want, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})))
}

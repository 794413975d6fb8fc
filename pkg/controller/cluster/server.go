// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	// Indexes reads what the policies read, from a cache of its own: of all
	// ConfigMaps it has those of that name, and no others may be read.
	Indexes client.Reader
	// WriteTracker has the versions that the caches must show; nil to not wait for them.
	WriteTracker *WriteTracker
}

// Server reads from informer caches and writes to the API server.
type Server struct {
	Reader
	// IndexWriter writes the indexes.
	IndexWriter *IndexWriter
}

// Create creates an object, but not in a namespace that ends: all that is in it
// is about to go.
func (s Server) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	err := s.Client.Create(ctx, o, opts...)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

// Rollout returns a Rollout, or nil when there is none.
func (s Reader) Rollout(ctx context.Context, key types.NamespacedName) (*rollouts.Rollout, error) {
	r, err := hub[rollouts.Rollout, v1beta1.Rollout](ctx, s, key)
	if r == nil || err != nil {
		return nil, err
	}
	return r, s.WriteTracker.shown(r)
}

// AllRollouts are those of all namespaces. They are read only: they share with
// the cache what the two versions have in common.
func (s Reader) AllRollouts(ctx context.Context) ([]*rollouts.Rollout, error) {
	var list v1beta1.RolloutList
	if err := s.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing rollouts: %w", err)
	}
	all := make([]*rollouts.Rollout, 0, len(list.Items))
	for i := range list.Items {
		r, err := converted[rollouts.Rollout](&list.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// BatchRelease returns a BatchRelease, or nil when there is none.
func (s Reader) BatchRelease(ctx context.Context, key types.NamespacedName) (*rollouts.BatchRelease, error) {
	b, err := hub[rollouts.BatchRelease, v1beta1.BatchRelease](ctx, s, key)
	if b == nil || err != nil {
		return nil, err
	}
	return b, s.WriteTracker.shown(b)
}

// BatchReleaseOf returns the BatchRelease that has the name of a Rollout, which may
// not be its own, or nil when there is none. One that was created a moment ago is not yet in the cache, and an abort
// that took it for absent would be over before the batch begins. So while a
// release is under way its absence is asked of the server.
func (s Reader) BatchReleaseOf(ctx context.Context, r *rollouts.Rollout) (*rollouts.BatchRelease, error) {
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	b, err := s.BatchRelease(ctx, key)
	if planner.Owns(r, b) || err != nil {
		return b, err
	}
	if !r.Status.UnderWay() {
		return b, nil
	}
	return hub[rollouts.BatchRelease, v1beta1.BatchRelease](ctx, s.Live, key)
}

// CommitRollout stores the next status at the version that it was planned from, and
// returns what is stored.
func (s Server) CommitRollout(ctx context.Context, r *rollouts.Rollout, status rollouts.RolloutStatus) (*rollouts.Rollout, error) {
	next := r.DeepCopy()
	next.Status = status
	return commit[rollouts.Rollout, v1beta1.Rollout](ctx, s, next)
}

// CommitBatchRelease is CommitRollout for BatchReleases.
func (s Server) CommitBatchRelease(ctx context.Context, b *rollouts.BatchRelease, status rollouts.BatchReleaseStatus) (*rollouts.BatchRelease, error) {
	next := b.DeepCopy()
	next.Status = status
	return commit[rollouts.BatchRelease, v1beta1.BatchRelease](ctx, s, next)
}

// CommitTrafficRouting is CommitRollout for TrafficRoutings.
func (s Server) CommitTrafficRouting(ctx context.Context, r *rollouts.TrafficRouting, status rollouts.TrafficRoutingStatus) (*rollouts.TrafficRouting, error) {
	next := r.DeepCopy()
	next.Status = status
	return commit[rollouts.TrafficRouting, v1alpha1.TrafficRouting](ctx, s, next)
}

// PutBatchRelease creates a BatchRelease, or replaces the spec of the one that was.
func (s Server) PutBatchRelease(ctx context.Context, was, b *rollouts.BatchRelease) error {
	wire, err := converted[v1beta1.BatchRelease](b)
	switch {
	case err != nil:
		return err
	case was == nil:
		return s.Create(ctx, wire)
	default:
		return s.noting(wire, s.Update(ctx, wire))
	}
}

// noting remembers a write that was done.
func (s Server) noting(o client.Object, err error) error {
	if err == nil {
		s.WriteTracker.note(o)
	}
	return err
}

// DeleteBatchRelease deletes the BatchRelease that was observed, and no other.
func (s Server) DeleteBatchRelease(ctx context.Context, b *rollouts.BatchRelease) error {
	return client.IgnoreNotFound(s.Delete(ctx, About(b), client.Preconditions{UID: &b.UID}))
}

// AddFinalizer puts a finalizer on an object of our group.
func (s Server) AddFinalizer(ctx context.Context, o object.Object, finalizer string) error {
	if slices.Contains(o.GetFinalizers(), finalizer) {
		return nil
	}
	return s.setFinalizers(ctx, o, append(slices.Clone(o.GetFinalizers()), finalizer))
}

// DropFinalizer takes a finalizer off an object of our group.
func (s Server) DropFinalizer(ctx context.Context, o object.Object, finalizer string) error {
	it := func(f string) bool { return f == finalizer }
	return s.setFinalizers(ctx, o, slices.DeleteFunc(slices.Clone(o.GetFinalizers()), it))
}

func (s Server) setFinalizers(ctx context.Context, o object.Object, finalizers []string) error {
	base, want := About(o), About(o)
	want.SetFinalizers(finalizers)
	return client.IgnoreNotFound(s.Patch(ctx, want, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})))
}

// Write performs changes in order and stops at the first that fails. What is
// unknown to this program is left alone: only differences are sent.
func (s Server) Write(ctx context.Context, changes []object.Change) error {
	for _, c := range changes {
		if err := s.write(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (s Server) write(ctx context.Context, c object.Change) error {
	base, err := s.clientObject(c.Base)
	if err != nil {
		return err
	}
	want, err := s.clientObject(c.Want)
	if err != nil {
		return err
	}
	switch {
	case base == nil:
		return s.doing(ctx, "Creating", want, func() error { return s.Create(ctx, want) })
	case want == nil:
		uid, version := base.GetUID(), base.GetResourceVersion()
		at := client.Preconditions{UID: &uid}
		if version != "" {
			at.ResourceVersion = &version
		}
		return s.doing(ctx, "Deleting", base, func() error { return client.IgnoreNotFound(s.Delete(ctx, base, at)) })
	default:
		return s.doing(ctx, "Changing", base, func() error { return s.noting(want, s.patch(ctx, base, want)) })
	}
}

// clientObject is what is sent: a view of a kind that the scheme does not have
// as that kind, and nil for nil. It must not change its input.
func (s Server) clientObject(o object.Object) (client.Object, error) {
	if o == nil {
		return nil, nil
	}
	kind := o.GetObjectKind().GroupVersionKind()
	if !kind.Empty() && !s.Scheme().Recognizes(kind) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return nil, fmt.Errorf("writing %s %s: %w", kind.Kind, o.GetName(), err)
		}
		return &unstructured.Unstructured{Object: content}, nil
	}
	c, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("writing %s: not an object", o.GetName())
	}
	return c, nil
}

// Moved reports whether somebody else wrote first. It is no failure: the next pass
// sees what they wrote and decides anew.
func Moved(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// Vanished reports whether the object that a pass is about, or another one of ours by its
// name, has gone since it was read. That is no failure either: its deletion is on the
// way to here.
func Vanished(err error, name string) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	about := status.Status().Details
	return about.Group == rollouts.GroupName && about.Name == name
}

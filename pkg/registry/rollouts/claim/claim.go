// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package claim answers one question: which Rollout owns a workload? It keeps
// one key per workload in storage, so that of any number of Rollouts created at
// once, by any number of servers, one wins. It must not know what a Rollout
// does with its workload. The protocol is docs/adr/0005-one-rollout-per-workload.md.
package claim

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// pendingPeriod is how long a claim is valid although its owner is not stored yet. It only limits
// how long a crash blocks a workload. It does not need to be safe for slow requests: a later
// write fails, because it compares the revision of the claim.
const pendingPeriod = time.Minute

// annotationAttempt has a random value, so that two acquisitions by the same owner in the same
// second differ. Each acquisition must change the stored claim, and with it the claim's revision.
const annotationAttempt = "attempt"

// attempts bounds how often a race is entered again; losing one means that
// another request has won.
const attempts = 5

// Owner is a Rollout that claims a workload.
type Owner struct {
	Namespace, Name string
	UID             types.UID
}

// OwnerOf is the Rollout as an owner.
func OwnerOf(r *rollouts.Rollout) Owner {
	return Owner{Namespace: r.Namespace, Name: r.Name, UID: r.UID}
}

// Same reports whether two references name the same workload.
func Same(a, b *rollouts.ObjectRef) bool {
	return a != nil && b != nil && keyOf("", a) == keyOf("", b)
}

// Claims keeps the claims of every workload.
type Claims struct {
	// Storage holds the claims.
	Storage storage.Interface
	// Stored reads a Rollout as it is stored, past any cache.
	Stored func(ctx context.Context, namespace, name string) (*rollouts.Rollout, error)
	Clock  clock.PassiveClock
}

// Acquire claims the workload for the owner. A second owner is refused with a conflict that
// names the first. Acquire writes even a claim that the owner already holds, so that another
// request that read the old claim cannot take it over. The new revision is recorded in the
// Held of the context.
func (c *Claims) Acquire(ctx context.Context, owner Owner, ref *rollouts.ObjectRef) error {
	key := keyOf(owner.Namespace, ref)
	for range attempts {
		stored := &metav1.PartialObjectMetadata{}
		err := c.Storage.Create(ctx, key, c.record(owner), stored, 0)
		if err == nil {
			return remember(ctx, key, stored)
		}
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			return err
		}
		if !storage.IsExist(err) {
			return fmt.Errorf("claiming %s: %w", describe(ref), err)
		}
		retry, err := c.replace(ctx, key, owner, ref)
		if !retry {
			return err
		}
	}
	return apierrors.NewServerTimeout(rollouts.Resource("rollouts"), "claim", 1)
}

// Check reports whether Acquire would succeed now, and writes nothing.
func (c *Claims) Check(ctx context.Context, owner Owner, ref *rollouts.ObjectRef) error {
	held := &metav1.PartialObjectMetadata{}
	err := c.Storage.Get(ctx, keyOf(owner.Namespace, ref), storage.GetOptions{}, held)
	if storage.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the claim of %s: %w", describe(ref), err)
	}
	return c.judge(ctx, held, owner, ref)
}

// Release deletes the claim of the owner, unless the stored owner names the workload. It deletes
// the claim only at the revision that it read: if another request of the same owner has written
// the claim since, that request holds it.
func (c *Claims) Release(ctx context.Context, owner Owner, ref *rollouts.ObjectRef) error {
	key := keyOf(owner.Namespace, ref)
	held := &metav1.PartialObjectMetadata{}
	err := c.Storage.Get(ctx, key, storage.GetOptions{}, held)
	if storage.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the claim of %s: %w", describe(ref), err)
	}
	if held.UID != owner.UID {
		return nil
	}
	if r, err := c.claimant(ctx, held, owner, ref); r != nil || err != nil {
		return err
	}
	seen := storage.Preconditions{UID: &held.UID, ResourceVersion: &held.ResourceVersion}
	err = c.Storage.Delete(ctx, key, &metav1.PartialObjectMetadata{}, &seen, rest.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	if err == nil || storage.IsNotFound(err) || storage.IsInvalidObj(err) || storage.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("releasing the claim of %s: %w", describe(ref), err)
}

// replace writes the owner's own claim again, or takes over a claim that is no longer valid. retry
// reports whether the claim was deleted or changed in between, so that the caller must try again.
func (c *Claims) replace(ctx context.Context, key string, owner Owner, ref *rollouts.ObjectRef) (retry bool, err error) {
	held := &metav1.PartialObjectMetadata{}
	err = c.Storage.Get(ctx, key, storage.GetOptions{}, held)
	if storage.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the claim of %s: %w", describe(ref), err)
	}
	if err := c.judge(ctx, held, owner, ref); err != nil {
		return false, err
	}
	seen := storage.Preconditions{ResourceVersion: &held.ResourceVersion}
	stored := &metav1.PartialObjectMetadata{}
	err = c.Storage.GuaranteedUpdate(ctx, key, stored, false, &seen,
		func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
			return c.record(owner), nil, nil
		}, nil)
	switch {
	case err == nil:
		return false, remember(ctx, key, stored)
	case storage.IsNotFound(err), storage.IsInvalidObj(err), storage.IsConflict(err):
		return true, nil
	default:
		return false, fmt.Errorf("taking the claim of %s over: %w", describe(ref), err)
	}
}

// judge refuses any other owner while the claim counts.
func (c *Claims) judge(ctx context.Context, held *metav1.PartialObjectMetadata, owner Owner, ref *rollouts.ObjectRef) error {
	if held.UID == owner.UID {
		return nil
	}
	r, err := c.claimant(ctx, held, owner, ref)
	if err != nil {
		return err
	}
	owned := r != nil
	switch {
	case owned && held.Name != owner.Name && planner.Finalized(r):
		return nil
	case !owned && c.Clock.Since(held.CreationTimestamp.Time) >= pendingPeriod:
		return nil
	case held.Name == owner.Name:
		return exists(owner, r)
	default:
		return conflict(owner, held.Name, ref)
	}
}

// claimant is the Rollout that a claim was made for; nil if it does not name the
// workload any more.
func (c *Claims) claimant(ctx context.Context, held *metav1.PartialObjectMetadata, owner Owner, ref *rollouts.ObjectRef) (*rollouts.Rollout, error) {
	r, err := c.Stored(ctx, owner.Namespace, held.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the owner of %s: %w", describe(ref), err)
	case r.UID != held.UID || !Same(r.Spec.WorkloadRef, ref):
		return nil, nil
	default:
		return r, nil
	}
}

// exists is what the store would say of a second object of one name. The first one is nil where
// it is about to be stored, or has just been deleted: clients try again by themselves.
func exists(owner Owner, first *rollouts.Rollout) error {
	if first == nil {
		return apierrors.NewServerTimeout(rollouts.Resource("rollouts"), "create", 1)
	}
	err := apierrors.NewAlreadyExists(rollouts.Resource("rollouts"), owner.Name)
	if first.DeletionTimestamp != nil {
		err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
	}
	return err
}

func conflict(owner Owner, first string, ref *rollouts.ObjectRef) error {
	// Clients of OpenKruise know the sentence.
	return apierrors.NewConflict(rollouts.Resource("rollouts"), owner.Name, fmt.Errorf( //nolint:staticcheck // it is capitalized on the wire
		"This rollout conflict with Rollout(%s/%s), one workload only have less than one Rollout: %s is claimed by it",
		owner.Namespace, first, describe(ref)))
}

func (c *Claims) record(owner Owner) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: owner.Namespace, Name: owner.Name, UID: owner.UID,
		CreationTimestamp: metav1.NewTime(c.Clock.Now()),
		Annotations:       map[string]string{annotationAttempt: string(uuid.NewUUID())},
	}}
}

// keyOf names the claim of a workload. The version of its API does not matter.
// Each part is a segment of its own, whatever it says.
func keyOf(namespace string, ref *rollouts.ObjectRef) string {
	group := groupOf(ref)
	if group == "" {
		group = "core"
	}
	return "/claims/" + segment(namespace) + "/" + segment(group) + "/" + segment(ref.Kind) + "/" + segment(ref.Name)
}

// segment is a part of a path that stays one. What a cluster could serve, and the
// name of an object, stay as they are.
func segment(part string) string {
	escaped := url.PathEscape(part)
	if strings.Trim(escaped, ".") == "" {
		return strings.ReplaceAll(escaped, ".", "%2E")
	}
	return escaped
}

func groupOf(ref *rollouts.ObjectRef) string {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return ref.APIVersion
	}
	return gv.Group
}

// describe names a workload for messages, such as Deployment.apps/web.
func describe(ref *rollouts.ObjectRef) string {
	if group := groupOf(ref); group != "" {
		return ref.Kind + "." + group + "/" + ref.Name
	}
	return ref.Kind + "/" + ref.Name
}

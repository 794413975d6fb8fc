// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package claim assigns each workload to one Rollout. It stores one key for each workload. So if several
// servers create Rollouts for the same workload at the same time, exactly one succeeds. The package does
// not depend on what a Rollout does with its workload. docs/adr/0005-one-rollout-per-workload.md describes
// the protocol.
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

// maxAttempts limits how often Acquire retries after it lost a race, in which another request won.
const maxAttempts = 5

// Owner is a Rollout that claims a workload.
type Owner struct {
	Namespace, Name string
	UID             types.UID
}

// NewOwner returns the owner that represents the Rollout.
func NewOwner(r *rollouts.Rollout) Owner {
	return Owner{Namespace: r.Namespace, Name: r.Name, UID: r.UID}
}

// SameWorkload reports whether two references name the same workload.
func SameWorkload(a, b *rollouts.ObjectRef) bool {
	return a != nil && b != nil && claimKey("", a) == claimKey("", b)
}

// Claims stores the claims of all workloads.
type Claims struct {
	// Storage holds the claims.
	Storage storage.Interface
	// GetRollout reads a Rollout from etcd, not from a cache.
	GetRollout func(ctx context.Context, namespace, name string) (*rollouts.Rollout, error)
	Clock      clock.PassiveClock
}

// Acquire claims the workload for the owner. A second owner is refused with a conflict that
// names the first. Acquire writes even a claim that the owner already holds, so that another
// request that read the old claim cannot take it over. The new revision is recorded in the
// AcquiredClaim of the context.
func (c *Claims) Acquire(ctx context.Context, owner Owner, ref *rollouts.ObjectRef) error {
	key := claimKey(owner.Namespace, ref)
	for range maxAttempts {
		stored := &metav1.PartialObjectMetadata{}
		err := c.Storage.Create(ctx, key, c.newRecord(owner), stored, 0)
		if err == nil {
			return recordAcquired(ctx, key, stored)
		}
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			return err
		}
		if !storage.IsExist(err) {
			return fmt.Errorf("claiming %s: %w", describeWorkload(ref), err)
		}
		retry, err := c.replaceClaim(ctx, key, owner, ref)
		if !retry {
			return err
		}
	}
	return apierrors.NewServerTimeout(rollouts.Resource("rollouts"), "claim", 1)
}

// Check reports whether Acquire would succeed now, and writes nothing.
func (c *Claims) Check(ctx context.Context, owner Owner, ref *rollouts.ObjectRef) error {
	held := &metav1.PartialObjectMetadata{}
	err := c.Storage.Get(ctx, claimKey(owner.Namespace, ref), storage.GetOptions{}, held)
	if storage.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the claim of %s: %w", describeWorkload(ref), err)
	}
	return c.checkOwner(ctx, held, owner, ref)
}

// Release deletes the claim of the owner, unless the stored owner names the workload. It deletes
// the claim only at the revision that it read: if another request of the same owner has written
// the claim since, that request holds it.
func (c *Claims) Release(ctx context.Context, owner Owner, ref *rollouts.ObjectRef) error {
	key := claimKey(owner.Namespace, ref)
	held := &metav1.PartialObjectMetadata{}
	err := c.Storage.Get(ctx, key, storage.GetOptions{}, held)
	if storage.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the claim of %s: %w", describeWorkload(ref), err)
	}
	if held.UID != owner.UID {
		return nil
	}
	if r, err := c.currentOwner(ctx, held, owner, ref); r != nil || err != nil {
		return err
	}
	seen := storage.Preconditions{UID: &held.UID, ResourceVersion: &held.ResourceVersion}
	err = c.Storage.Delete(ctx, key, &metav1.PartialObjectMetadata{}, &seen, rest.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	if err == nil || storage.IsNotFound(err) || storage.IsInvalidObj(err) || storage.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("releasing the claim of %s: %w", describeWorkload(ref), err)
}

// replaceClaim writes the owner's own claim again, or takes over a claim that is no longer valid. retry
// reports whether the claim was deleted or changed in between, so that the caller must try again.
func (c *Claims) replaceClaim(ctx context.Context, key string, owner Owner, ref *rollouts.ObjectRef) (retry bool, err error) {
	held := &metav1.PartialObjectMetadata{}
	err = c.Storage.Get(ctx, key, storage.GetOptions{}, held)
	if storage.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the claim of %s: %w", describeWorkload(ref), err)
	}
	if err := c.checkOwner(ctx, held, owner, ref); err != nil {
		return false, err
	}
	seen := storage.Preconditions{ResourceVersion: &held.ResourceVersion}
	stored := &metav1.PartialObjectMetadata{}
	err = c.Storage.GuaranteedUpdate(ctx, key, stored, false, &seen,
		func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
			return c.newRecord(owner), nil, nil
		}, nil)
	switch {
	case err == nil:
		return false, recordAcquired(ctx, key, stored)
	case storage.IsNotFound(err), storage.IsInvalidObj(err), storage.IsConflict(err):
		return true, nil
	default:
		return false, fmt.Errorf("taking the claim of %s over: %w", describeWorkload(ref), err)
	}
}

// checkOwner returns an error if another owner holds a valid claim.
func (c *Claims) checkOwner(ctx context.Context, held *metav1.PartialObjectMetadata, owner Owner, ref *rollouts.ObjectRef) error {
	if held.UID == owner.UID {
		return nil
	}
	r, err := c.currentOwner(ctx, held, owner, ref)
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
		return existsError(owner, r)
	default:
		return conflictError(owner, held.Name, ref)
	}
}

// currentOwner returns the Rollout that holds the claim; nil if that Rollout is gone or references another
// workload.
func (c *Claims) currentOwner(ctx context.Context, held *metav1.PartialObjectMetadata, owner Owner, ref *rollouts.ObjectRef) (*rollouts.Rollout, error) {
	r, err := c.GetRollout(ctx, owner.Namespace, held.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the owner of %s: %w", describeWorkload(ref), err)
	case r.UID != held.UID || !SameWorkload(r.Spec.WorkloadRef, ref):
		return nil, nil
	default:
		return r, nil
	}
}

// existsError returns the error for a second object with the same name. first is nil if the first object is
// about to be stored or was just deleted. Clients retry the error for that case themselves.
func existsError(owner Owner, first *rollouts.Rollout) error {
	if first == nil {
		return apierrors.NewServerTimeout(rollouts.Resource("rollouts"), "create", 1)
	}
	err := apierrors.NewAlreadyExists(rollouts.Resource("rollouts"), owner.Name)
	if first.DeletionTimestamp != nil {
		err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
	}
	return err
}

func conflictError(owner Owner, first string, ref *rollouts.ObjectRef) error {
	// The text is that of OpenKruise's webhook, which clients may parse.
	return apierrors.NewConflict(rollouts.Resource("rollouts"), owner.Name, fmt.Errorf( //nolint:staticcheck // it is capitalized on the wire
		"This rollout conflict with Rollout(%s/%s), one workload only have less than one Rollout: %s %s is already managed by Rollout %s/%s; delete one of the two, or change spec.workloadRef",
		owner.Namespace, first, ref.Kind, ref.Name, owner.Namespace, first))
}

func (c *Claims) newRecord(owner Owner) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: owner.Namespace, Name: owner.Name, UID: owner.UID,
		CreationTimestamp: metav1.NewTime(c.Clock.Now()),
		Annotations:       map[string]string{annotationAttempt: string(uuid.NewUUID())},
	}}
}

// claimKey returns the storage key of the claim of a workload. The key omits the API version. Each part is one
// path segment, whatever characters it contains.
func claimKey(namespace string, ref *rollouts.ObjectRef) string {
	group := groupOf(ref)
	if group == "" {
		group = "core"
	}
	return "/claims/" + escapeSegment(namespace) + "/" + escapeSegment(group) + "/" + escapeSegment(ref.Kind) + "/" + escapeSegment(ref.Name)
}

// escapeSegment escapes a part of a path so that it stays one segment. Valid kinds, groups and object names stay
// unchanged.
func escapeSegment(part string) string {
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

// describeWorkload names a workload for messages, such as Deployment.apps/web.
func describeWorkload(ref *rollouts.ObjectRef) string {
	if group := groupOf(ref); group != "" {
		return ref.Kind + "." + group + "/" + ref.Name
	}
	return ref.Kind + "/" + ref.Name
}

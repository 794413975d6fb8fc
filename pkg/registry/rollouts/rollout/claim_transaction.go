// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/claim"
)

// releaseTimeout limits the release of a claim, which happens after the write of the Rollout.
const releaseTimeout = 5 * time.Second

// claimTransaction claims a workload during one request. It acquires the claim in the store's call of
// validating admission: the object is complete and valid by then, and not yet stored. The storage then
// writes the object and the claim in one transaction.
type claimTransaction struct {
	claims   *claim.Claims
	dryRun   bool
	acquired *claim.AcquiredClaim

	// acquiredRefs are the claims that this request has acquired, one per attempt.
	acquiredRefs []ownedRef
	// previous is the previous workload of an update that changes workloadRef.
	previous *ownedRef
}

// ownedRef is a workload and the Rollout that claims it. A create with generateName may need
// several attempts, each with its own name and uid.
type ownedRef struct {
	owner claim.Owner
	ref   *rollouts.ObjectRef
}

// newClaimTransaction returns a transaction. The store must be called with the returned context,
// which carries the claim.
func newClaimTransaction(ctx context.Context, claims *claim.Claims, dry bool) (context.Context, *claimTransaction) {
	ctx, held := claim.WithAcquiredClaim(ctx)
	return ctx, &claimTransaction{claims: claims, dryRun: dry, acquired: held}
}

func (t *claimTransaction) onCreate(next rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if err := next(ctx, obj); err != nil {
			return err
		}
		r := obj.(*rollouts.Rollout)
		return t.acquire(ctx, ownedRef{claim.NewOwner(r), r.Spec.WorkloadRef})
	}
}

func (t *claimTransaction) onUpdate(next rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		if err := next(ctx, obj, old); err != nil {
			return err
		}
		r, stored := obj.(*rollouts.Rollout), old.(*rollouts.Rollout)
		owner := claim.NewOwner(stored)
		t.previous = nil
		t.acquired.Clear()
		if r.Spec.WorkloadRef == nil || claim.SameWorkload(r.Spec.WorkloadRef, stored.Spec.WorkloadRef) {
			return nil
		}
		if stored.Spec.WorkloadRef != nil {
			t.previous = &ownedRef{owner, stored.Spec.WorkloadRef}
		}
		return t.acquire(ctx, ownedRef{owner, r.Spec.WorkloadRef})
	}
}

func (t *claimTransaction) acquire(ctx context.Context, w ownedRef) error {
	t.acquired.Clear()
	if t.dryRun {
		return t.claims.Check(ctx, w.owner, w.ref)
	}
	if err := t.claims.Acquire(ctx, w.owner, w.ref); err != nil {
		return err
	}
	t.acquiredRefs = append(t.acquiredRefs, w)
	return nil
}

// finish ends the transaction after the write. It releases every claim that the stored Rollout does
// not need: after a failure all acquired claims; after a success those of earlier attempts, and
// the claim of the previous workloadRef. After a timeout it is unknown whether the Rollout was
// stored. Releasing is safe even then: a write that arrives later fails, because its claim has
// changed.
func (t *claimTransaction) finish(ctx context.Context, err error) {
	if t.dryRun {
		return
	}
	needless := t.acquiredRefs
	if err == nil {
		if t.acquired.Key != "" && len(needless) > 0 {
			needless = needless[:len(needless)-1]
		}
		if t.previous != nil {
			needless = append(needless, *t.previous)
		}
	}
	for _, w := range needless {
		t.release(ctx, w)
	}
}

func (t *claimTransaction) release(ctx context.Context, w ownedRef) {
	// The context of the request may be expired.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := t.claims.Release(ctx, w.owner, w.ref); err != nil {
		// A failure is harmless: the next Rollout of this workload takes over the claim.
		klog.ErrorS(err, "Leaving a claim behind", "rollout", klog.KRef(w.owner.Namespace, w.owner.Name))
	}
}

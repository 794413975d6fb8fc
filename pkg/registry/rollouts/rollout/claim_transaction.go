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

// releaseTimeout bounds the release of a claim, which follows a write that has
// happened already.
const releaseTimeout = 5 * time.Second

// claimTransaction claims a workload during one request. The claim is taken
// where the store calls the validating admission: the object is complete and
// valid by then, and not yet stored. The storage then writes the object and the claim in one
// transaction.
type claimTransaction struct {
	claims *claim.Claims
	dry    bool
	held   *claim.Held

	// taken has the claims that this request has acquired, one per attempt.
	taken []ownedRef
	// left is the workload that an update moves away from.
	left *ownedRef
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
	ctx, held := claim.WithHeld(ctx)
	return ctx, &claimTransaction{claims: claims, dry: dry, held: held}
}

func (t *claimTransaction) onCreate(next rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if err := next(ctx, obj); err != nil {
			return err
		}
		r := obj.(*rollouts.Rollout)
		return t.acquire(ctx, ownedRef{claim.OwnerOf(r), r.Spec.WorkloadRef})
	}
}

func (t *claimTransaction) onUpdate(next rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		if err := next(ctx, obj, old); err != nil {
			return err
		}
		r, stored := obj.(*rollouts.Rollout), old.(*rollouts.Rollout)
		owner := claim.OwnerOf(stored)
		t.left = nil
		t.held.Forget()
		if r.Spec.WorkloadRef == nil || claim.Same(r.Spec.WorkloadRef, stored.Spec.WorkloadRef) {
			return nil
		}
		if stored.Spec.WorkloadRef != nil {
			t.left = &ownedRef{owner, stored.Spec.WorkloadRef}
		}
		return t.acquire(ctx, ownedRef{owner, r.Spec.WorkloadRef})
	}
}

func (t *claimTransaction) acquire(ctx context.Context, w ownedRef) error {
	t.held.Forget()
	if t.dry {
		return t.claims.Check(ctx, w.owner, w.ref)
	}
	if err := t.claims.Acquire(ctx, w.owner, w.ref); err != nil {
		return err
	}
	t.taken = append(t.taken, w)
	return nil
}

// settle ends the transaction after the write. It releases every claim that the stored Rollout does
// not need: after a failure all acquired claims; after a success those of earlier attempts, and
// the claim of the previous workloadRef. After a timeout it is unknown whether the Rollout was
// stored. Releasing is safe even then: a write that arrives later fails, because its claim has
// changed.
func (t *claimTransaction) settle(ctx context.Context, err error) {
	if t.dry {
		return
	}
	needless := t.taken
	if err == nil {
		if t.held.Key != "" && len(needless) > 0 {
			needless = needless[:len(needless)-1]
		}
		if t.left != nil {
			needless = append(needless, *t.left)
		}
	}
	for _, w := range needless {
		t.release(ctx, w)
	}
}

func (t *claimTransaction) release(ctx context.Context, w ownedRef) {
	// The time of the request may be over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := t.claims.Release(ctx, w.owner, w.ref); err != nil {
		// The next Rollout of this workload takes the claim over.
		klog.ErrorS(err, "Leaving a claim behind", "rollout", klog.KRef(w.owner.Namespace, w.owner.Name))
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
// valid by then, and not yet stored.
type claimTransaction struct {
	claims *claim.Claims
	dry    bool

	// created is the workload of an object that is being created.
	created *rollouts.ObjectRef
	// left is the workload that an update moves away from.
	left  *rollouts.ObjectRef
	owner claim.Owner
}

func (t *claimTransaction) onCreate(next rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if err := next(ctx, obj); err != nil {
			return err
		}
		// A generated name may need several attempts, each with its own uid.
		t.giveBack(ctx)
		r := obj.(*rollouts.Rollout)
		t.owner = claim.OwnerOf(r)
		if t.dry {
			return t.claims.Check(ctx, t.owner, r.Spec.WorkloadRef)
		}
		t.created = r.Spec.WorkloadRef
		return t.claims.Acquire(ctx, t.owner, r.Spec.WorkloadRef)
	}
}

func (t *claimTransaction) onUpdate(next rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		if err := next(ctx, obj, old); err != nil {
			return err
		}
		// Server-side apply may have tried to create before.
		t.giveBack(ctx)
		r, stored := obj.(*rollouts.Rollout), old.(*rollouts.Rollout)
		t.owner, t.left = claim.OwnerOf(stored), nil
		if r.Spec.WorkloadRef == nil || claim.Same(r.Spec.WorkloadRef, stored.Spec.WorkloadRef) {
			return nil
		}
		if t.dry {
			return t.claims.Check(ctx, t.owner, r.Spec.WorkloadRef)
		}
		t.left = stored.Spec.WorkloadRef
		return t.claims.Acquire(ctx, t.owner, r.Spec.WorkloadRef)
	}
}

// settle ends the transaction once the write has succeeded or failed. A failure that
// leaves open whether the object was stored keeps the claim: while there is no
// such object it counts for a minute only.
func (t *claimTransaction) settle(ctx context.Context, err error) {
	switch {
	case apierrors.IsAlreadyExists(err):
		t.giveBack(ctx)
	case err == nil && t.left != nil:
		t.release(ctx, t.left)
	}
}

// giveBack releases the workload of an object that was not created.
func (t *claimTransaction) giveBack(ctx context.Context) {
	if t.created != nil {
		t.release(ctx, t.created)
	}
	t.created = nil
}

func (t *claimTransaction) release(ctx context.Context, ref *rollouts.ObjectRef) {
	// The time of the request may be over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := t.claims.Release(ctx, t.owner, ref); err != nil {
		// The next Rollout of this workload takes the claim over.
		klog.ErrorS(err, "Leaving a claim behind", "rollout", klog.KRef(t.owner.Namespace, t.owner.Name))
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// file stores the histories that the stored status asks for, and makes room
// when one was made.
func (r *Reconciler) file(ctx context.Context, obs *observation, filings []planner.Filing) error {
	for _, f := range filings {
		logf.FromContext(ctx).Info("Filing history", "release", f.Release.Number, "outcome", f.Release.Outcome)
		made, err := r.Server.File(ctx, cluster.Part{
			Rollout: obs.rollout, Workload: obs.workload, Stable: f.Release.StableRevision, Traffic: obs.objects,
		}, f)
		if err != nil {
			return fmt.Errorf("filing release %d: %w", f.Release.Number, err)
		}
		if !made {
			continue
		}
		if err := r.Server.Prune(ctx, obs.rollout, r.Keep, r.Clock.Now()); err != nil {
			return err
		}
	}
	return nil
}

// over reports whether a release among them has ended.
func over(filings []planner.Filing) bool {
	return slices.ContainsFunc(filings, func(f planner.Filing) bool { return f.Release.EndTime != nil })
}

// leaves reports whether the Rollout is about to go, and its record with it.
func leaves(plan planner.Plan) bool {
	return slices.Contains(plan.Actions, planner.Action(planner.DropFinalizer{}))
}

// hopeless reports whether a history cannot be stored, however often it is tried: the
// namespace is being deleted, or this program may not. A Rollout does not stay
// for that.
func hopeless(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err)
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package pass

import (
	"context"
	"fmt"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// moved is how soon to look again when somebody else wrote first.
const moved = 20 * time.Millisecond

// Reconcile runs one pass and says when to look again.
func (s Steps[O, S]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, d, err := s.Run(ctx, req.NamespacedName)
	switch {
	case o == nil:
		return Result(err)
	case cluster.Vanished(err, req.Name):
		return ctrl.Result{}, nil
	case err != nil:
		if s.NoLater != nil && d.Wake > 0 {
			s.NoLater(req, d.Wake) // a pause ends when it is over, whatever fails meanwhile
		}
		return Result(fmt.Errorf("applying %q: %w", d.Rule, err))
	case slices.ContainsFunc(d.Filings, func(f planner.Filing) bool { return f.Release.EndTime != nil }):
		return ctrl.Result{RequeueAfter: moved}, nil // nothing else tells that they are stored
	}
	return ctrl.Result{RequeueAfter: Sooner(d.Wake, s.Again(o))}, nil
}

// Result converts the error of a pass to the result for controller-runtime. It returns all errors
// except those that only require a new observation, such as conflicts: controller-runtime
// counts and logs a returned error, and backs off.
func Result(err error) (ctrl.Result, error) {
	switch {
	case cluster.Behind(err):
		return ctrl.Result{RequeueAfter: cluster.Patience}, nil
	case cluster.Moved(err):
		return ctrl.Result{RequeueAfter: moved}, nil
	}
	return ctrl.Result{}, err
}

// Sooner is the shorter of two waits; one of 0 is none.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

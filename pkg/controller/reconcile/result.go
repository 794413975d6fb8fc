// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-rollouts/weir/pkg/controller/cluster"
)

// ConflictRequeueDelay is the time until the next pass after a conflict, when somebody else has written
// the object first.
const ConflictRequeueDelay = 20 * time.Millisecond

// Result converts the error of a pass to the result for controller-runtime. It returns all errors
// except those that only require a new observation, such as conflicts: controller-runtime
// counts and logs a returned error, and backs off.
func Result(err error) (ctrl.Result, error) {
	switch {
	case cluster.IsStaleCache(err):
		return ctrl.Result{RequeueAfter: cluster.StaleCacheDelay}, nil
	case cluster.IsConflict(err):
		return ctrl.Result{RequeueAfter: ConflictRequeueDelay}, nil
	}
	return ctrl.Result{}, err
}

// Sooner returns the shorter of two delays; zero means that there is no delay to wait for.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

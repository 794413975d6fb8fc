// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// Writer writes objects of others.
type Writer interface {
	// Write performs changes in order and stops at the first that fails.
	Write(context.Context, []object.Change) error
}

// ApplyNetworkEffect carries out an effect on Services and routers.
func ApplyNetworkEffect(ctx context.Context, w Writer, o traffic.Objects, effect planner.Effect) error {
	if _, ok := effect.(planner.RemoveRoute); ok {
		return restoreRouters(ctx, w, o)
	}
	changes, err := networkChanges(o, effect)
	return errors.Join(w.Write(ctx, changes), err)
}

func networkChanges(o traffic.Objects, effect planner.Effect) ([]object.Change, error) {
	switch a := effect.(type) {
	case planner.PinService:
		return traffic.PinStableService(o, a.Revision)
	case planner.UnpinService:
		return traffic.UnpinStableService(o), nil
	case planner.SetCanaryService:
		return traffic.EnsureCanaryService(o, a.Revision)
	case planner.RouteTraffic:
		return traffic.RouteRequests(o, a.Revision, a.Want)
	case planner.RemoveCanaryService:
		return traffic.RemoveCanaryService(o), nil
	default:
		return nil, fmt.Errorf("the effect %q is not one on Services and routers", effect)
	}
}

// restoreRouters takes routes back. Where the server refuses what is kept on a router, since
// somebody has written that, what is there is led to stable: an ending ends.
func restoreRouters(ctx context.Context, w Writer, o traffic.Objects) error {
	changes, err := traffic.RestoreRouters(o)
	wrote := w.Write(ctx, changes)
	if apierrors.IsInvalid(wrote) || apierrors.IsBadRequest(wrote) || apierrors.IsForbidden(wrote) {
		o.OriginalDigests = []string{}
		changes, err = traffic.RestoreRouters(o)
		wrote = w.Write(ctx, changes)
	}
	return errors.Join(wrote, err)
}

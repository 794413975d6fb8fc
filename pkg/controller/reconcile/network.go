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

// Writer writes objects that do not belong to Weir's API group.
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

// networkChanges returns the changes that an effect makes to Services and routers.
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

// restoreRouters restores the original specs of the routers. Somebody may have changed the recorded
// original so that the server refuses it. Then restoreRouters keeps the current spec and routes all
// requests to the stable Service, so that the release can end.
func restoreRouters(ctx context.Context, w Writer, o traffic.Objects) error {
	changes, err := traffic.RestoreRouters(o)
	writeErr := w.Write(ctx, changes)
	if apierrors.IsInvalid(writeErr) || apierrors.IsBadRequest(writeErr) || apierrors.IsForbidden(writeErr) {
		o.OriginalDigests = []string{} // no recorded original counts
		changes, err = traffic.RestoreRouters(o)
		writeErr = w.Write(ctx, changes)
	}
	return errors.Join(writeErr, err)
}

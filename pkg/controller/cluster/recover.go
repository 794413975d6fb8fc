// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"runtime/debug"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// recovered returns what compute returns, or nothing if compute panics. All code that looks
// at a single object outside of a pass runs in it: indexes, watches, and the order of the
// queue. Nothing recovers there, so a panic would end the process, and again after each
// start, because the object is still stored. In a pass controller-runtime recovers.
func recovered[T any](doing string, of any, compute func() T) (out T) {
	defer func() {
		if cause := recover(); cause != nil {
			utilruntime.HandleError(fmt.Errorf("%s of %s: recovered from a panic, please report it: %v\n%s", doing, described(of), cause, debug.Stack()))
		}
	}()
	return compute()
}

// described names an object in a log.
func described(of any) string {
	if o, ok := of.(client.Object); ok {
		return fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())
	}
	return fmt.Sprint(of)
}

// EnqueueMapped wakes the requests that a function returns for an object.
func EnqueueMapped(requests handler.MapFunc) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request { //nolint:forbidigo // recovered
		return recovered("finding the requests", o, func() []reconcile.Request { return requests(ctx, o) })
	})
}

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

// recoverPanic returns the result of compute, or the zero value if compute panics. All code that
// handles a single object outside of a pass runs in recoverPanic: index functions, watch handlers,
// and the order of the queue. controller-runtime recovers panics only in a pass. Elsewhere one
// malformed stored object would end the process, and end it again after each restart.
func recoverPanic[T any](doing string, of any, compute func() T) (out T) {
	defer func() {
		if cause := recover(); cause != nil {
			utilruntime.HandleError(fmt.Errorf("%s of %s: recovered from a panic; the object is skipped; please report this bug: %v\n%s", doing, describeAny(of), cause, debug.Stack()))
		}
	}()
	return compute()
}

// describeAny returns the type, namespace and name of an object, for a log.
func describeAny(of any) string {
	if o, ok := of.(client.Object); ok {
		return fmt.Sprintf("%T %s/%s", o, o.GetNamespace(), o.GetName())
	}
	return fmt.Sprint(of)
}

// EnqueueMapped returns a handler that enqueues the requests of an object, and recovers if the
// function panics.
func EnqueueMapped(requests handler.MapFunc) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request { //nolint:forbidigo // recovered
		return recoverPanic("finding the requests", o, func() []reconcile.Request { return requests(ctx, o) })
	})
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package orphan

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// OptionalKinds starts a Reconciler for each kind that not every cluster serves, once
// it is served. It reconciles the definitions of these kinds.
type OptionalKinds struct {
	Server   cluster.Server
	Recorder events.EventRecorder
	mgr      ctrl.Manager
	kinds    cluster.OptionalKinds
}

// SetupWithManager registers the watches. A kind that may not be read when its
// definition comes may be readable when a Rollout of it is deleted.
func (r *OptionalKinds) SetupWithManager(mgr ctrl.Manager) error {
	r.mgr = mgr
	return ctrl.NewControllerManagedBy(mgr).Named("forgotten-kinds").
		Watches(cluster.Definitions(), cluster.Later(cluster.Served, cluster.EnqueueMapped(defined))).
		Watches(cluster.NewRollout(), cluster.EnqueueMapped(definedFor), builder.WithPredicates(cluster.Deleted())).
		Watches(cluster.NewBatchRelease(), cluster.EnqueueMapped(definedFor), builder.WithPredicates(cluster.Deleted())).
		Complete(r)
}

// defined is the request for a definition of a workload, and none for other definitions.
func defined(_ context.Context, o client.Object) []reconcile.Request {
	if _, ok := rowOf(o.GetName()); !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetName()}}}
}

// definedFor is the request for the definition of the kind that a Rollout or a BatchRelease names.
func definedFor(ctx context.Context, o client.Object) []reconcile.Request {
	kind, _ := cluster.Released(o)
	plural, _ := meta.UnsafeGuessKindToResource(kind.WithVersion(""))
	definition := cluster.Definitions()
	definition.SetName(plural.GroupResource().String())
	return defined(ctx, definition)
}

// rowOf is the row of the kind that a definition of this name brings.
func rowOf(name string) (workload.Row, bool) {
	resource := schema.ParseGroupResource(name)
	for _, row := range workload.Kinds() {
		if plural, _ := meta.UnsafeGuessKindToResource(row.GVK); plural.Resource == resource.Resource {
			return workload.Find(resource.Group+"/", row.GVK.Kind, rollouts.StylePartition)
		}
	}
	return workload.Row{}, false
}

// Reconcile starts a Reconciler for a kind once it is served. A kind that is not, or
// that may not be read, is looked at again when its definition changes.
func (r *OptionalKinds) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	row, ok := rowOf(req.Name)
	if !ok || r.Server.Native(row) {
		return ctrl.Result{}, nil
	}
	_, _, err := r.kinds.Kind(ctx, r.Server.Reader, row.GVK.GroupKind(), func(o client.Object) error {
		row.GVK = o.GetObjectKind().GroupVersionKind()
		return (&Reconciler{Server: r.Server, Recorder: r.Recorder, Row: row}).SetupWithManager(r.mgr)
	}, row.GVK.Version)
	return ctrl.Result{}, err
}

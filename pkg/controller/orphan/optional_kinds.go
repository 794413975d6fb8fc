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

// OptionalKinds starts a Reconciler for each kind that not every cluster serves, once the cluster
// serves it. It reconciles the CustomResourceDefinitions of these kinds.
type OptionalKinds struct {
	Server   cluster.Server
	Recorder events.EventRecorder
	mgr      ctrl.Manager
	kinds    cluster.OptionalKinds
}

// SetupWithManager registers the watches. A kind that is not readable when its definition is
// created may be readable when a Rollout of this kind is deleted.
func (r *OptionalKinds) SetupWithManager(mgr ctrl.Manager) error {
	r.mgr = mgr
	return ctrl.NewControllerManagedBy(mgr).Named("forgotten-kinds").
		Watches(cluster.NewDefinition(), cluster.Delay(cluster.ServeDelay, cluster.EnqueueMapped(requestForDefinition))).
		Watches(cluster.NewRollout(), cluster.EnqueueMapped(requestForReleasedKind), builder.WithPredicates(cluster.OnlyDeletions())).
		Watches(cluster.NewBatchRelease(), cluster.EnqueueMapped(requestForReleasedKind), builder.WithPredicates(cluster.OnlyDeletions())).
		Complete(r)
}

// requestForDefinition returns a request for the definition of a workload kind; none for other
// definitions.
func requestForDefinition(_ context.Context, o client.Object) []reconcile.Request {
	if _, ok := rowForDefinition(o.GetName()); !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetName()}}}
}

// requestForReleasedKind returns a request for the definition of the kind that a Rollout or
// BatchRelease names.
func requestForReleasedKind(ctx context.Context, o client.Object) []reconcile.Request {
	kind, _ := cluster.WorkloadOf(o)
	plural, _ := meta.UnsafeGuessKindToResource(kind.WithVersion(""))
	definition := cluster.NewDefinition()
	definition.SetName(plural.GroupResource().String())
	return requestForDefinition(ctx, definition)
}

// rowForDefinition returns the row of the kind that a definition with this name defines.
func rowForDefinition(name string) (workload.Row, bool) {
	resource := schema.ParseGroupResource(name)
	for _, row := range workload.Kinds() {
		if plural, _ := meta.UnsafeGuessKindToResource(row.GVK); plural.Resource == resource.Resource {
			return workload.Find(resource.Group+"/", row.GVK.Kind, rollouts.StylePartition)
		}
	}
	return workload.Row{}, false
}

// Reconcile starts a Reconciler for a kind once it is served. A kind that is not served or not
// readable is reconciled again when its definition changes.
func (r *OptionalKinds) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	row, ok := rowForDefinition(req.Name)
	if !ok || r.Server.IsNative(row) {
		return ctrl.Result{}, nil
	}
	_, _, err := r.kinds.FindAndWatch(ctx, r.Server.Reader, row.GVK.GroupKind(), func(o client.Object) error {
		row.GVK = o.GetObjectKind().GroupVersionKind()
		return (&Reconciler{Server: r.Server, Recorder: r.Recorder, Row: row}).SetupWithManager(r.mgr)
	}, row.GVK.Version)
	return ctrl.Result{}, err
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/endpoint"
)

// genericKind is a kind that the generic endpoints serve.
type genericKind interface {
	ResourceAndVersions() (resource schema.GroupResource, versions []string)
	NewStorage(scheme *runtime.Scheme, options generic.RESTOptionsGetter, d endpoint.Access) (main, status rest.Storage, err error)
}

var genericKinds = []genericKind{
	metricSources, checks, clusterChecks,
	endpoint.Kind[*rollouts.BatchRelease, rollouts.BatchReleaseSpec, rollouts.BatchReleaseStatus]{
		Plural: "batchreleases", Singular: "batchrelease", Versions: []string{"v1beta1", "v1alpha1"},
		New:     func() *rollouts.BatchRelease { return &rollouts.BatchRelease{} },
		NewList: func() runtime.Object { return &rollouts.BatchReleaseList{} },
		SpecAndStatus: func(b *rollouts.BatchRelease) (*rollouts.BatchReleaseSpec, *rollouts.BatchReleaseStatus) {
			return &b.Spec, &b.Status
		},
		Internal:       true,
		CombinedWrites: true,
		ReservedWrite:  reservedBatchReleaseWrite,
		Validate:       validation.ValidateBatchRelease,
		ValidateUpdate: validation.ValidateBatchReleaseUpdate,
		InUse:          func(b *rollouts.BatchRelease) bool { return b.Status.Drive != nil },
		Table: endpoint.Table[*rollouts.BatchRelease]{
			Noun: "batch release",
			Columns: []metav1.TableColumnDefinition{
				{Name: "KIND", Type: "string", Description: "The kind of the workload."},
				{Name: "PHASE", Type: "string", Description: "The phase of the batch release."},
				{Name: "BATCH", Type: "integer", Description: "The current batch, counted from 0."},
				{Name: "BATCH-STATE", Type: "string", Description: "The state of the current batch."},
			},
			Cells: batchReleaseCells,
		},
	},
	endpoint.Kind[*rollouts.TrafficRouting, rollouts.TrafficRoutingSpec, rollouts.TrafficRoutingStatus]{
		Plural: "trafficroutings", Singular: "trafficrouting", Versions: []string{"v1alpha1"},
		New:     func() *rollouts.TrafficRouting { return &rollouts.TrafficRouting{} },
		NewList: func() runtime.Object { return &rollouts.TrafficRoutingList{} },
		SpecAndStatus: func(r *rollouts.TrafficRouting) (*rollouts.TrafficRoutingSpec, *rollouts.TrafficRoutingStatus) {
			return &r.Spec, &r.Status
		},
		Validate:       validation.ValidateTrafficRouting,
		ValidateUpdate: validation.ValidateTrafficRoutingUpdate,
		InUse:          func(r *rollouts.TrafficRouting) bool { return r.Status.LastUpdateTime != nil },
		Table: endpoint.Table[*rollouts.TrafficRouting]{
			Noun: "traffic routing",
			Columns: []metav1.TableColumnDefinition{
				{Name: "STATUS", Type: "string", Description: "The phase of the traffic routing."},
				{Name: "MESSAGE", Type: "string", Description: "What the traffic routing does or waits for."},
			},
			Cells: func(_ context.Context, r *rollouts.TrafficRouting) (cells, more []any) {
				return []any{endpoint.TextCell(r.Status.Phase), endpoint.TextCell(r.Status.Message)}, nil
			},
		},
	},
	endpoint.Kind[*rollouts.RolloutHistory, rollouts.RolloutHistorySpec, rollouts.RolloutHistoryStatus]{
		Plural: "rollouthistories", Singular: "rollouthistory", Versions: []string{"v1alpha1"},
		New:     func() *rollouts.RolloutHistory { return &rollouts.RolloutHistory{} },
		NewList: func() runtime.Object { return &rollouts.RolloutHistoryList{} },
		SpecAndStatus: func(h *rollouts.RolloutHistory) (*rollouts.RolloutHistorySpec, *rollouts.RolloutHistoryStatus) {
			return &h.Spec, &h.Status
		},
		Internal:       true,
		ReservedWrite:  reservedHistoryWrite,
		Copies:         historyCopies,
		Validate:       validation.ValidateRolloutHistory,
		ValidateUpdate: validation.ValidateRolloutHistoryUpdate,
		Table: endpoint.Table[*rollouts.RolloutHistory]{
			Noun:  "rollout history",
			Cells: func(_ context.Context, _ *rollouts.RolloutHistory) (cells, more []any) { return nil, nil },
		},
	},
}

func batchReleaseCells(_ context.Context, b *rollouts.BatchRelease) (cells, more []any) {
	var kind, batch any
	if b.Spec.WorkloadRef != nil {
		kind = b.Spec.WorkloadRef.Kind
	}
	if b.Status.BatchState != "" || b.Status.CurrentBatch != 0 {
		batch = int64(b.Status.CurrentBatch)
	}
	return []any{kind, endpoint.TextCell(b.Status.Phase), batch, endpoint.TextCell(b.Status.BatchState)}, nil
}

// reservedBatchReleaseWrite reserves BatchReleases that a Rollout controls. A change of the spec or the status
// would move a release past its pauses, and a deletion would delete pods. A BatchRelease belongs to a
// Rollout by its owner reference, or by its name: a Rollout adopts a BatchRelease of its own name.
func reservedBatchReleaseWrite(ctx context.Context, d endpoint.Access, w endpoint.Write[*rollouts.BatchRelease]) (string, error) {
	r, err := d.GetRollout(ctx, w.Object.Name)
	if err != nil {
		return "", err
	}
	owner, before := controllingRolloutUID(w.Object, r), ""
	if !w.IsNew {
		before = controllingRolloutUID(w.Old, r)
	}
	if owner == "" && before == "" && r == nil || !w.Changed && leavesRolloutInControl(w, r, owner, before) {
		return "", nil
	}
	return fmt.Sprintf("this BatchRelease belongs to Rollout %q; edit the Rollout", w.Object.Name), nil
}

// leavesRolloutInControl reports whether the Rollout stays in control after a write: the write changes labels, or
// deletes a BatchRelease together with its Rollout, or removes a reference to an owner that no longer
// exists.
func leavesRolloutInControl(w endpoint.Write[*rollouts.BatchRelease], r *rollouts.Rollout, owner, before string) bool {
	gone := r == nil || before != string(r.UID)
	if owner != before {
		return owner == "" && gone
	}
	return !w.Deletes || gone || r.DeletionTimestamp != nil
}

// controllingRolloutUID returns the UID of the Rollout that controls a BatchRelease; empty if there is none. The UID
// decides even if the reference spells the kind differently.
func controllingRolloutUID(b *rollouts.BatchRelease, r *rollouts.Rollout) string {
	if ref := metav1.GetControllerOfNoCopy(b); ref != nil && (ref.Kind == "Rollout" || r != nil && ref.UID == r.UID) {
		return string(ref.UID)
	}
	return ""
}

// historyCopies returns the copies in a RolloutHistory. The template in spec.stable counts as a copy of the
// workload, so users who may get the workload may see it.
func historyCopies(h *rollouts.RolloutHistory) (all []endpoint.Copy) {
	add := func(of schema.GroupResource, name string, info *rollouts.ObjectInfo) {
		if info != nil && len(info.Data.Raw) > 0 {
			all = append(all, endpoint.Copy{Resource: of, Name: name, Remove: func() { info.Data = rollouts.RawJSON{} }})
		}
	}
	if r := h.Spec.Rollout; r != nil {
		add(rollouts.Resource("rollouts"), r.Name, &r.ObjectInfo)
	}
	workload := schema.GroupResource{Group: "apps", Resource: "deployments"}
	name := ""
	if w := h.Spec.Workload; w != nil {
		plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(w.APIVersion, w.Kind))
		workload, name = plural.GroupResource(), w.Name
		add(workload, name, &w.ObjectInfo)
	}
	add(workload, name, h.Spec.Stable)
	if s := h.Spec.Service; s != nil {
		add(schema.GroupResource{Resource: "services"}, s.Name, s)
	}
	if t := h.Spec.TrafficRouting; t != nil {
		if t.Ingress != nil {
			add(schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}, t.Ingress.Name, t.Ingress)
		}
		if t.HTTPRoute != nil {
			add(schema.GroupResource{Group: "gateway.networking.k8s.io", Resource: "httproutes"}, t.HTTPRoute.Name, t.HTTPRoute)
		}
	}
	return all
}

// reservedHistoryWrite reserves the spec, the status and the labels of a RolloutHistory. The labels identify the
// Rollout.
func reservedHistoryWrite(_ context.Context, _ endpoint.Access, w endpoint.Write[*rollouts.RolloutHistory]) (string, error) {
	if !w.Changed && maps.Equal(w.Object.Labels, w.Old.Labels) {
		return "", nil
	}
	return "it is the record of a release, which only weir-controller writes; delete it if nobody needs it", nil
}

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
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/plain"
)

// kind is one that needs nothing of its own.
type kind interface {
	Served() (resource schema.GroupResource, versions []string)
	Serve(scheme *runtime.Scheme, options generic.RESTOptionsGetter, d plain.Drivers) (main, status rest.Storage, err error)
}

var kinds = []kind{
	metricSources, checks, clusterChecks,
	plain.Kind[*rollouts.BatchRelease, rollouts.BatchReleaseSpec, rollouts.BatchReleaseStatus]{
		Plural: "batchreleases", Singular: "batchrelease", Versions: []string{"v1beta1", "v1alpha1"},
		New:     func() *rollouts.BatchRelease { return &rollouts.BatchRelease{} },
		NewList: func() runtime.Object { return &rollouts.BatchReleaseList{} },
		Parts: func(b *rollouts.BatchRelease) (*rollouts.BatchReleaseSpec, *rollouts.BatchReleaseStatus) {
			return &b.Spec, &b.Status
		},
		Internal:       true,
		Whole:          true,
		Reserved:       reservedBatchRelease,
		Validate:       validation.ValidateBatchRelease,
		ValidateUpdate: validation.ValidateBatchReleaseUpdate,
		InUse:          func(b *rollouts.BatchRelease) bool { return b.Status.Drive != nil },
		Table: plain.Table[*rollouts.BatchRelease]{
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
	plain.Kind[*rollouts.TrafficRouting, rollouts.TrafficRoutingSpec, rollouts.TrafficRoutingStatus]{
		Plural: "trafficroutings", Singular: "trafficrouting", Versions: []string{"v1alpha1"},
		New:     func() *rollouts.TrafficRouting { return &rollouts.TrafficRouting{} },
		NewList: func() runtime.Object { return &rollouts.TrafficRoutingList{} },
		Parts: func(r *rollouts.TrafficRouting) (*rollouts.TrafficRoutingSpec, *rollouts.TrafficRoutingStatus) {
			return &r.Spec, &r.Status
		},
		Validate:       validation.ValidateTrafficRouting,
		ValidateUpdate: validation.ValidateTrafficRoutingUpdate,
		InUse:          func(r *rollouts.TrafficRouting) bool { return r.Status.LastUpdateTime != nil },
		Table: plain.Table[*rollouts.TrafficRouting]{
			Noun: "traffic routing",
			Columns: []metav1.TableColumnDefinition{
				{Name: "STATUS", Type: "string", Description: "The phase of the traffic routing."},
				{Name: "MESSAGE", Type: "string", Description: "What the traffic routing does or waits for."},
			},
			Cells: func(r *rollouts.TrafficRouting) (cells, wide []any) {
				return []any{plain.Text(r.Status.Phase), plain.Text(r.Status.Message)}, nil
			},
		},
	},
	plain.Kind[*rollouts.RolloutHistory, rollouts.RolloutHistorySpec, rollouts.RolloutHistoryStatus]{
		Plural: "rollouthistories", Singular: "rollouthistory", Versions: []string{"v1alpha1"},
		New:     func() *rollouts.RolloutHistory { return &rollouts.RolloutHistory{} },
		NewList: func() runtime.Object { return &rollouts.RolloutHistoryList{} },
		Parts: func(h *rollouts.RolloutHistory) (*rollouts.RolloutHistorySpec, *rollouts.RolloutHistoryStatus) {
			return &h.Spec, &h.Status
		},
		Internal:       true,
		Reserved:       reservedHistory,
		Copies:         copiesOf,
		Validate:       validation.ValidateRolloutHistory,
		ValidateUpdate: validation.ValidateRolloutHistoryUpdate,
		Table: plain.Table[*rollouts.RolloutHistory]{
			Noun:  "rollout history",
			Cells: func(*rollouts.RolloutHistory) (cells, wide []any) { return nil, nil },
		},
	},
}

func batchReleaseCells(b *rollouts.BatchRelease) (cells, wide []any) {
	var kind, batch any
	if b.Spec.WorkloadRef != nil {
		kind = b.Spec.WorkloadRef.Kind
	}
	if b.Status.BatchState != "" || b.Status.CurrentBatch != 0 {
		batch = int64(b.Status.CurrentBatch)
	}
	return []any{kind, plain.Text(b.Status.Phase), batch, plain.Text(b.Status.BatchState)}, nil
}

// reservedBatchRelease reserves BatchReleases that a Rollout drives: a changed spec
// or status moves a release past its pauses, and a deletion takes pods along. A
// BatchRelease is a Rollout's by its owner, or by its name: the Rollout would adopt
// one of its own name.
func reservedBatchRelease(ctx context.Context, d plain.Drivers, w plain.Write[*rollouts.BatchRelease]) (string, error) {
	r, err := d.Rollout(ctx, w.Object.Name)
	if err != nil {
		return "", err
	}
	owner, before := driver(w.Object, r), ""
	if !w.New {
		before = driver(w.Old, r)
	}
	if owner == "" && before == "" && r == nil || !w.Changed && permitted(w, r, owner, before) {
		return "", nil
	}
	return fmt.Sprintf("Rollout %q drives it: change that instead", w.Object.Name), nil
}

// permitted reports whether a write leaves the Rollout what it drives: the write
// changes labels, deletes a BatchRelease together with its Rollout, or removes an
// owner that does not exist any more.
func permitted(w plain.Write[*rollouts.BatchRelease], r *rollouts.Rollout, owner, before string) bool {
	gone := r == nil || before != string(r.UID)
	if owner != before {
		return owner == "" && gone
	}
	return !w.Gone || gone || r.DeletionTimestamp != nil
}

// driver is the UID of the Rollout that controls a BatchRelease, however the
// reference spells its kind; empty if there is none.
func driver(b *rollouts.BatchRelease, r *rollouts.Rollout) string {
	if ref := metav1.GetControllerOfNoCopy(b); ref != nil && (ref.Kind == "Rollout" || r != nil && ref.UID == r.UID) {
		return string(ref.UID)
	}
	return ""
}

// copiesOf returns the copies in a RolloutHistory. The template in spec.stable counts as a copy of
// the workload, so users who may get the workload may see it.
func copiesOf(h *rollouts.RolloutHistory) (all []plain.Copy) {
	add := func(of schema.GroupResource, name string, info *rollouts.ObjectInfo) {
		if info != nil && len(info.Data.Raw) > 0 {
			all = append(all, plain.Copy{Of: of, Name: name, Drop: func() { info.Data = rollouts.RawJSON{} }})
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

// reservedHistory reserves the spec and the status of a history, and its labels,
// which say of which Rollout it is.
func reservedHistory(_ context.Context, _ plain.Drivers, w plain.Write[*rollouts.RolloutHistory]) (string, error) {
	if !w.Changed && maps.Equal(w.Object.Labels, w.Old.Labels) {
		return "", nil
	}
	return "it is the record of a release, which only weir-controller writes; delete it if nobody needs it", nil
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package trafficrouting answers one question: how is a TrafficRouting served?
// It must not know how traffic is routed.
package trafficrouting

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/plain"
)

// Kind is how TrafficRoutings are served.
var Kind = plain.Kind[*rollouts.TrafficRouting, rollouts.TrafficRoutingSpec, rollouts.TrafficRoutingStatus]{
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
		Cells: func(r *rollouts.TrafficRouting) []any {
			return []any{plain.Text(r.Status.Phase), plain.Text(r.Status.Message)}
		},
	},
}

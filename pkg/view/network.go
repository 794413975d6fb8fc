// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// addNetwork adds Services and routers. The canary Service and canary Ingresses are left out if
// they do not exist.
func (b *builder) addNetwork() {
	for _, read := range b.observed.networkReads() {
		if !b.observed.Answers[read].isVisible() {
			continue
		}
		o := b.observed.objectOf(read)
		switch {
		case read.Role == roleService && read.Name == b.facts.network.ServiceName.Name, o != nil && read.Role == roleService:
			b.addNode(b.serviceNode(read, o))
		case read.Role == roleRouter:
			b.addRouter(read, o)
		}
	}
}

// serviceNode returns the node of a Service. Its revision is the one that the Service selects.
func (b *builder) serviceNode(read Read, o object.Object) rollouts.Node {
	n := newNode(roleService, read.Kind, read.Name, o, b.rolloutID)
	s, ok := o.(*corev1.Service)
	if !ok {
		return n
	}
	value := s.Spec.Selector[b.facts.row.RevisionKey]
	n.Revision = b.facts.revisionOf(value)
	if value == "" {
		n.Message = cmp.Or(n.Message, "Selects all pods")
	} else {
		n.Message = cmp.Or(n.Message, "Selects pods of revision "+value)
	}
	if b.facts.weight != nil && n.Revision != "" {
		n.Traffic = b.facts.trafficShare(n.Revision, 0, 0)
	}
	return n
}

// addRouter adds a router or a canary Ingress.
func (b *builder) addRouter(read Read, o object.Object) {
	for _, r := range b.facts.network.Routers {
		if r.Kind != read.Kind.GroupKind() {
			continue
		}
		switch read.Name {
		case r.Name:
			n := newNode(roleRouter, read.Kind, read.Name, o, b.rolloutID)
			if o != nil {
				b.setRouterHealth(&n, r)
			}
			b.addNode(n)
		case r.Name + rollouts.CanarySuffix:
			if o != nil && r.UsesCanaryIngress() {
				n := newNode(roleRouter, read.Kind, read.Name, o, "")
				n.Parent, n.Revision, n.Traffic = b.routerID(r), "update", b.facts.weight
				b.addNode(n)
			}
		}
	}
}

// addTrafficRouting adds the TrafficRouting, which several Rollouts may use.
func (b *builder) addTrafficRouting() {
	read := b.observed.routingRead()
	if read.Name == "" || !b.observed.Answers[read].isVisible() {
		return
	}
	o := b.observed.objectOf(read)
	n := newNode(read.Role, read.Kind, read.Name, o, b.rolloutID)
	if t, ok := o.(*rollouts.TrafficRouting); ok {
		n.Message = cmp.Or(t.Status.Message, n.Message)
		switch {
		case t.Status.Routed:
			n.Traffic = t.Spec.Strategy.Weight
		case t.Status.Phase != rollouts.PhaseHealthy:
			n.Health = progressing
		}
	}
	b.addNode(n)
}

// routerID returns the ID of the owner's router.
func (b *builder) routerID(r traffic.Router) string {
	if r.Object != nil {
		return string(r.Object.GetUID())
	}
	return b.rolloutID
}

// setRouterHealth sets the health, the message and the weight of a router's node.
func (b *builder) setRouterHealth(n *rollouts.Node, r traffic.Router) {
	route := traffic.ObserveRouter(b.facts.network, r)
	if n.Message = cmp.Or(route.UnroutableReason, route.Refused); n.Message != "" {
		n.Health = degraded
		return
	}
	switch {
	case route.Pending != "":
		n.Health, n.Message = progressing, route.Pending
	case route.Edited:
		n.Health, n.Message = degraded, "Another client changed what Weir wrote"
	case route.Routed && route.Weight != nil:
		n.Traffic, n.Message = route.Weight, fmt.Sprintf("%d%% of requests go to the new version", *route.Weight)
	case len(route.Matches) > 0:
		n.Message = "Matching requests go to the new version"
	}
}

func (b *builder) addScalers() {
	if b.workloadID == "" {
		return
	}
	found := b.observed.Scalers()
	for _, h := range found[:min(len(found), maxNodes)] {
		n := newNode(roleScaler, scalerKind, "", h, b.workloadID)
		n.Desired, n.Pods = new(h.Status.DesiredReplicas), new(h.Status.CurrentReplicas)
		if workload.AutoscalerTarget(h) != h.Spec.ScaleTargetRef.Name {
			n.Health, n.Message = suspended, "Disabled until the release ends"
		}
		b.addNode(n)
	}
}

// addBudgets adds the PodDisruptionBudgets that select pods of the workload.
func (b *builder) addBudgets() {
	if b.workloadID == "" {
		return
	}
	pods, added := labels.Set(b.facts.row.PodLabels(b.facts.object)), 0
	for _, p := range ObjectsAs[*policyv1.PodDisruptionBudget](b.observed.Answers[BudgetRead]) {
		selector, err := metav1.LabelSelectorAsSelector(p.Spec.Selector)
		if err != nil || !selector.Matches(pods) || added == maxNodes {
			continue
		}
		n := newNode(roleBudget, budgetKind, "", p, b.workloadID)
		n.Desired, n.Ready = new(p.Status.DesiredHealthy), new(p.Status.CurrentHealthy)
		n.Message = cmp.Or(n.Message, fmt.Sprintf("Allows %d disruptions", p.Status.DisruptionsAllowed))
		added++
		b.addNode(n)
	}
}

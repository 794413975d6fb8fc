// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Indexes of the caches.
const (
	// ByOwner finds objects by the uid of their controller owner.
	ByOwner = "metadata.controller.uid"
	// ByWorkload finds Rollouts and BatchReleases by their workload.
	ByWorkload = "spec.workloadRef"
	// ByGroup finds Rollouts, BatchReleases and TrafficRoutings by the API groups of their workload and routers.
	ByGroup = "spec.groups"
	// ByScaleTarget finds autoscalers by the name of their scale target. For an autoscaler that Weir has
	// disabled this is the original target.
	ByScaleTarget = "spec.scaleTargetRef.name"
	// ByNetwork finds Rollouts and TrafficRoutings by the Services and routers that they change.
	ByNetwork = "spec.strategy.trafficRoutings"
	// ByTrafficRouting finds Rollouts by the TrafficRouting that they reference.
	ByTrafficRouting = "spec.strategy.trafficRoutingRef"
	// ByLinkedRollout finds TrafficRoutings by the Rollouts that have finalizers on them.
	ByLinkedRollout = "metadata.finalizers"
)

// WorkloadKey returns the key of a workload in the index ByWorkload. It does not depend on the API version.
func WorkloadKey(gk schema.GroupKind, name string) string { return gk.String() + "/" + name }

// WorkloadKeys returns the keys of a Rollout or BatchRelease in the index ByWorkload.
func WorkloadKeys(o client.Object) []string {
	if gk, name := WorkloadOf(o); name != "" {
		return []string{WorkloadKey(gk, name)}
	}
	return nil
}

// GroupKeys returns the keys of a Rollout, BatchRelease or TrafficRouting in the index ByGroup.
func GroupKeys(o client.Object) []string {
	groups := sets.New[string]()
	if gk, name := WorkloadOf(o); name != "" {
		groups.Insert(gk.Group)
	}
	for _, ref := range trafficRefs(o) {
		for _, router := range traffic.RoutersFor(ref, "") {
			groups.Insert(router.Kind.Group)
		}
	}
	return sets.List(groups)
}

// WorkloadOf returns the workload of a Rollout or BatchRelease; the name is empty if there is none.
func WorkloadOf(o client.Object) (gk schema.GroupKind, name string) {
	var ref v1beta1.ObjectRef
	switch o := o.(type) {
	case *v1beta1.Rollout:
		ref = o.Spec.WorkloadRef
	case *v1beta1.BatchRelease:
		if o.Spec.WorkloadRef != nil {
			ref = *o.Spec.WorkloadRef
		}
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return schema.GroupKind{}, ""
	}
	return gv.WithKind(ref.Kind).GroupKind(), ref.Name
}

// ScaleTargetNames returns the keys of an autoscaler in the index ByScaleTarget.
func ScaleTargetNames(o client.Object) []string {
	h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil
	}
	return []string{workload.AutoscalerTarget(h)}
}

// ScaleTargetKeys returns the key in the index ByWorkload of the workload that an autoscaler scales, or
// would scale if Weir had not disabled it.
func ScaleTargetKeys(o client.Object) []string {
	h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil
	}
	ref := h.Spec.ScaleTargetRef
	return []string{WorkloadKey(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), workload.AutoscalerTarget(h))}
}

// OwnerKeys returns the keys of an object in the index ByOwner.
func OwnerKeys(o client.Object) []string {
	if ref := metav1.GetControllerOf(o); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

// NetworkKey returns the key of a Service or a router in the index ByNetwork.
func NetworkKey(kind, name string) string { return kind + "/" + name }

// NetworkKeys returns the keys of a Rollout or TrafficRouting in the index ByNetwork.
func NetworkKeys(o client.Object) []string {
	return networkKeysOfRefs(trafficRefs(o))
}

// trafficRefs returns the references of a Rollout or TrafficRouting to a Service and routers. Only the first
// reference counts.
func trafficRefs(o client.Object) []rollouts.TrafficRoutingRef {
	var refs []rollouts.TrafficRoutingRef
	if routing, ok := o.(*v1alpha1.TrafficRouting); ok {
		hub, err := convert[rollouts.TrafficRouting](routing)
		if err != nil {
			return nil
		}
		refs = hub.Spec.ObjectRef
	} else if release := releaseOf(o); release != nil {
		refs = release.TrafficRoutings
	}
	return refs[:min(len(refs), 1)]
}

// releaseOf returns the release plan of a Rollout, or nil.
func releaseOf(o client.Object) *rollouts.Release {
	r, ok := o.(*v1beta1.Rollout)
	if !ok {
		return nil
	}
	hub, err := convert[rollouts.Rollout](r)
	if err != nil {
		return nil
	}
	_, release := hub.Spec.Strategy.Active()
	return release
}

// networkKeysOfRefs returns the keys of the Services and routers of the first reference, including the canary
// Service and the canary Ingress.
func networkKeysOfRefs(refs []rollouts.TrafficRoutingRef) []string {
	var keys []string
	for _, t := range refs[:min(len(refs), 1)] {
		keys = append(keys, NetworkKey("Service", t.Service), NetworkKey("Service", t.Service+rollouts.CanarySuffix))
		for _, router := range traffic.RoutersFor(t, "") {
			keys = append(keys, NetworkKey(router.Kind.Kind, router.Name))
			if router.IsIngress() {
				keys = append(keys, NetworkKey(router.Kind.Kind, router.Name+rollouts.CanarySuffix))
			}
		}
	}
	return keys
}

// TrafficRoutingKeys returns the keys of a Rollout in the index ByTrafficRouting.
func TrafficRoutingKeys(o client.Object) []string {
	release := releaseOf(o)
	if release == nil || release.TrafficRouting() == "" {
		return nil
	}
	return []string{release.TrafficRouting()}
}

// LinkedRollouts returns the names of the Rollouts that have finalizers on a TrafficRouting. They are its
// keys in the index ByLinkedRollout.
func LinkedRollouts(o client.Object) []string {
	var names []string
	for _, f := range o.GetFinalizers() {
		if name, ok := strings.CutPrefix(f, rollouts.FinalizerProgressing+"/"); ok {
			names = append(names, name)
		}
	}
	return names
}

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
	// ByOwner finds objects by the uid of their controller.
	ByOwner = "metadata.controller.uid"
	// ByWorkload finds Rollouts and BatchReleases by what they release.
	ByWorkload = "spec.workloadRef"
	// ByGroup finds them by the group of its kind, and of those of their routers.
	ByGroup = "spec.groups"
	// ByScaled finds autoscalers by the name of what they scale, disabled or not.
	ByScaled = "spec.scaleTargetRef.name"
	// ByNetwork finds Rollouts by the Services and routers that they change.
	ByNetwork = "spec.strategy.trafficRoutings"
	// ByRouting finds Rollouts by the TrafficRouting that they name.
	ByRouting = "spec.strategy.trafficRoutingRef"
	// ByUser finds TrafficRoutings by the names of Rollouts that have finalizers on them.
	ByUser = "metadata.finalizers"
)

// WorkloadKey is how a workload is found in an index, whatever its version.
func WorkloadKey(gk schema.GroupKind, name string) string { return gk.String() + "/" + name }

// WorkloadKeys indexes Rollouts and BatchReleases.
func WorkloadKeys(o client.Object) []string {
	if gk, name := Released(o); name != "" {
		return []string{WorkloadKey(gk, name)}
	}
	return nil
}

// GroupKeys indexes them, too, and TrafficRoutings.
func GroupKeys(o client.Object) []string {
	groups := sets.New[string]()
	if gk, name := Released(o); name != "" {
		groups.Insert(gk.Group)
	}
	for _, ref := range routingsOf(o) {
		for _, router := range traffic.RoutersFor(ref, "") {
			groups.Insert(router.Kind.Group)
		}
	}
	return sets.List(groups)
}

// Released is what a Rollout or a BatchRelease releases; no name if nothing.
func Released(o client.Object) (gk schema.GroupKind, name string) {
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

// ScaledKeys indexes autoscalers.
func ScaledKeys(o client.Object) []string {
	h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil
	}
	return []string{workload.AutoscalerTarget(h)}
}

// ScaledBy names what an autoscaler scales, or would if it were not disabled.
func ScaledBy(o client.Object) []string {
	h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil
	}
	ref := h.Spec.ScaleTargetRef
	return []string{WorkloadKey(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), workload.AutoscalerTarget(h))}
}

// OwnerKeys indexes anything by its controller.
func OwnerKeys(o client.Object) []string {
	if ref := metav1.GetControllerOf(o); ref != nil {
		return []string{string(ref.UID)}
	}
	return nil
}

// NetworkKey is how a Service or a router is found in an index. What is made
// beside the original counts as the original.
func NetworkKey(kind, name string) string { return kind + "/" + name }

// NetworkKeys indexes Rollouts and TrafficRoutings.
func NetworkKeys(o client.Object) []string {
	return networkKeys(routingsOf(o))
}

// routingsOf is what a Rollout or a TrafficRouting routes by, of which one counts.
func routingsOf(o client.Object) []rollouts.TrafficRoutingRef {
	var refs []rollouts.TrafficRoutingRef
	if routing, ok := o.(*v1alpha1.TrafficRouting); ok {
		hub, err := converted[rollouts.TrafficRouting](routing)
		if err != nil {
			return nil
		}
		refs = hub.Spec.ObjectRef
	} else if release := releaseOf(o); release != nil {
		refs = release.TrafficRoutings
	}
	return refs[:min(len(refs), 1)]
}

// releaseOf is the release that a Rollout asks for, or nil.
func releaseOf(o client.Object) *rollouts.Release {
	r, ok := o.(*v1beta1.Rollout)
	if !ok {
		return nil
	}
	hub, err := converted[rollouts.Rollout](r)
	if err != nil {
		return nil
	}
	_, release := hub.Spec.Strategy.Active()
	return release
}

// networkKeys are those of what is routed by, of which one counts.
func networkKeys(refs []rollouts.TrafficRoutingRef) []string {
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

// RoutingKeys index Rollouts by the TrafficRouting that they name.
func RoutingKeys(o client.Object) []string {
	release := releaseOf(o)
	if release == nil || release.TrafficRouting() == "" {
		return nil
	}
	return []string{release.TrafficRouting()}
}

// UserKeys index TrafficRoutings by the Rollouts that have finalizers on them.
func UserKeys(o client.Object) []string {
	var names []string
	for _, f := range o.GetFinalizers() {
		if name, ok := strings.CutPrefix(f, rollouts.FinalizerProgressing+"/"); ok {
			names = append(names, name)
		}
	}
	return names
}

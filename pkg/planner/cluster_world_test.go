// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/batchrelease"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/deployment"
	"github.com/weir-rollouts/weir/pkg/controller/rollout"
	"github.com/weir-rollouts/weir/pkg/controller/trafficrouting"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// cachedCluster is the world as the controllers read and write it: reads come from caches that may
// be stale.
type cachedCluster struct{ *world }

var (
	_ rollout.Cluster        = cachedCluster{}
	_ batchrelease.Cluster   = cachedCluster{}
	_ trafficrouting.Cluster = cachedCluster{}
	_ deployment.Cluster     = cachedCluster{}
)

func (a cachedCluster) Rollout(_ context.Context, key types.NamespacedName) (*rollouts.Rollout, error) {
	return find[*rollouts.Rollout](a.view(kindRollout), kindRollout, key.Name), nil
}

func (a cachedCluster) BatchRelease(_ context.Context, key types.NamespacedName) (*rollouts.BatchRelease, error) {
	return find[*rollouts.BatchRelease](a.view(kindBatch), kindBatch, key.Name), nil
}

func (a cachedCluster) BatchReleaseOf(_ context.Context, r *rollouts.Rollout) (*rollouts.BatchRelease, error) {
	return find[*rollouts.BatchRelease](a.view(kindBatch), kindBatch, r.Name), nil
}

func (a cachedCluster) TrafficRouting(_ context.Context, key types.NamespacedName) (*rollouts.TrafficRouting, error) {
	return find[*rollouts.TrafficRouting](a.view(kindRouting), kindRouting, key.Name), nil
}

func (a cachedCluster) IndexEntry(_ context.Context, r types.NamespacedName, ref *rollouts.ObjectRef) (*cluster.IndexEntry, error) {
	return cluster.ReadIndexEntry(find[*corev1.ConfigMap](a.view(kindIndex), kindIndex, rollouts.IndexName), r, ref), nil
}

func (a cachedCluster) MissingAdmission(context.Context, *rollouts.Rollout, string) (string, error) {
	return "", nil
}

func (a cachedCluster) CheckAvailability(context.Context, workload.Row) (cluster.Unavailability, error) {
	return cluster.Unavailability{}, nil
}

func (a cachedCluster) RequireFreshWorkload(_ context.Context, row workload.Row, _, _ string) error {
	a.lag[kindOf(row.GVK.Kind)] = 0
	return nil
}

func (a cachedCluster) Workload(_ context.Context, row workload.Row, _, name string, known planner.HoldState) (*cluster.Workload, error) {
	w := a.readWorkload(row, name, known)
	if w == nil {
		return nil, nil
	}
	w.Hold = row.HoldOf(w.Object, w.Owned, known)
	k := kindOf(row.GVK.Kind)
	var err error
	w.NameConflict, err = row.NameConflict(w.Object, w.Owned, w.Hold, func(name string) (object.Object, error) {
		return find[object.Object](a.view(k), k, name), nil
	})
	return w, err
}

func (a cachedCluster) UnreferencedWorkload(_ context.Context, row workload.Row, _, name string) (*cluster.Workload, error) {
	w := a.readWorkload(row, name, planner.HoldState{})
	made := func(b *rollouts.BatchRelease) bool { return planner.IsExtraWorkloadOf(b, w.Object) }
	if w == nil || slices.ContainsFunc(listOf[*rollouts.BatchRelease](a.view(kindBatch)), made) {
		return nil, nil
	}
	return w, nil
}

// ownedKinds are the kinds of the objects that workloads own.
var ownedKinds = map[string]kind{"ReplicaSet": kindSet, "ControllerRevision": kindRevision, "Pod": kindPod}

// readWorkload reads a workload and the objects that it owns from the caches.
func (a cachedCluster) readWorkload(row workload.Row, name string, known planner.HoldState) *cluster.Workload {
	k := kindOf(row.GVK.Kind)
	o := find[object.Object](a.view(k), k, name)
	if o == nil {
		return nil
	}
	w := &cluster.Workload{Row: row, Object: o, Hold: workload.HoldFromRecords(o)}
	owners := []metav1.Object{o}
	if row.UsesExtraDeployment {
		for _, e := range row.ExtraDeployments(o, listKind(a.view(k), k), known) {
			owners, w.Owned = append(owners, e), append(w.Owned, e)
		}
	}
	for _, gvk := range row.Owns {
		k := ownedKinds[gvk.Kind]
		for _, own := range listKind(a.view(k), k) {
			if slices.ContainsFunc(owners, func(owner metav1.Object) bool { return metav1.IsControlledBy(own, owner) }) {
				w.Owned = append(w.Owned, own)
			}
		}
	}
	if row.OwnsAutoscalers {
		w.Owned = append(w.Owned, a.autoscalersOf(name)...)
	}
	return w
}

func (a cachedCluster) Autoscalers(_ context.Context, _, name string) ([]object.Object, error) {
	return a.autoscalersOf(name), nil
}

// autoscalersOf returns the autoscalers of a workload, including disabled ones.
func (a cachedCluster) autoscalersOf(name string) []object.Object {
	return slices.DeleteFunc(listKind(a.view(kindScaler), kindScaler), func(o object.Object) bool {
		return workload.AutoscalerTarget(o.(*autoscalingv2.HorizontalPodAutoscaler)) != name
	})
}

func (a cachedCluster) ReplicaSetNameConflict(_ context.Context, owner object.Object, name string) (object.Object, error) {
	if rs := find[*appsv1.ReplicaSet](a.view(kindSet), kindSet, name); rs != nil && !metav1.IsControlledBy(rs, owner) {
		return rs, nil
	}
	return nil, nil
}

func (a cachedCluster) RolloutOfWorkload(_ context.Context, _ schema.GroupKind, workload types.NamespacedName) (string, error) {
	for _, r := range listOf[*rollouts.Rollout](a.view(kindRollout)) {
		if r.Spec.WorkloadRef.Name == workload.Name && (r.Status.Phase != rollouts.PhaseDisabled || !r.Spec.Disabled) && !planner.Finalized(r) {
			return r.Name, nil
		}
	}
	return "", nil
}

func (a cachedCluster) BatchReleaseHoldState(_ context.Context, _ schema.GroupKind, workload types.NamespacedName) (planner.HoldState, bool, error) {
	b := find[*rollouts.BatchRelease](a.view(kindBatch), kindBatch, workload.Name)
	return planner.HoldStateOf(nil, b), b != nil, nil
}

func (a cachedCluster) RolloutExists(_ context.Context, b *rollouts.BatchRelease) (bool, error) {
	r := find[*rollouts.Rollout](a.view(kindRollout), kindRollout, b.Name)
	return planner.Owns(r, b) && !planner.Finalized(r), nil
}

// Pods returns the pods of a revision: those that the status of a ReplicaSet counts, and stored Pod
// objects.
func (a cachedCluster) Pods(_ context.Context, w *cluster.Workload, revision string) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for _, o := range w.Owned {
		switch o := o.(type) {
		case *appsv1.ReplicaSet:
			if o.Labels[hashKey] == revision {
				pods = append(pods, a.podsOfSet(o)...)
			}
		case *corev1.Pod:
			if o.Labels[ordinalKey] == revision {
				p := *o
				if len(p.Status.ContainerStatuses) == 0 {
					p.Status.ContainerStatuses = a.podStatus(corev1.PodTemplateSpec{Spec: p.Spec}, isReady(o)).ContainerStatuses
				}
				pods = append(pods, &p)
			}
		}
	}
	return pods, nil
}

// OtherReleases returns the Rollouts that use the same Service or router, and those in
// otherReleases, which are not stored.
func (a cachedCluster) OtherReleases(_ context.Context, mine *rollouts.Rollout) ([]traffic.OtherRelease, error) {
	all := slices.Clone(a.otherReleases)
	_, release := mine.Spec.Strategy.Active()
	for _, other := range listOf[*rollouts.Rollout](a.view(kindRollout)) {
		_, theirs := other.Spec.Strategy.Active()
		if other.Name == mine.Name || len(theirs.TrafficRoutings) == 0 || theirs.TrafficRoutings[0].Service != release.TrafficRoutings[0].Service {
			continue
		}
		if routes, first := planner.CompareNetworkHolds(other, mine); routes {
			all = append(all, traffic.OtherRelease{Release: "rollout/" + other.Name, Object: "service/" + theirs.TrafficRoutings[0].Service, AcquiredFirst: first})
		}
	}
	return all, nil
}

func (a cachedCluster) OtherReleasesOfRouting(context.Context, *rollouts.TrafficRouting) ([]traffic.OtherRelease, error) {
	return nil, nil
}

func (a cachedCluster) ReadNetwork(_ context.Context, _, service string, o *traffic.Objects) error {
	services := a.view(kindService)
	o.ServiceName = types.NamespacedName{Name: service}
	o.Service = find[*corev1.Service](services, kindService, service)
	o.CanaryService = find[*corev1.Service](services, kindService, service+rollouts.CanarySuffix)
	for i := range o.Routers {
		a.readRouter(&o.Routers[i], o.CanaryService != nil || o.Shared)
	}
	return nil
}

func (a cachedCluster) readRouter(r *traffic.Router, routed bool) {
	if !r.IsIngress() {
		if obj := a.cachedRouter(r); obj != nil {
			r.Object = obj
		}
		return
	}
	ingresses := a.view(kindIngress)
	if in := find[*networkingv1.Ingress](ingresses, kindIngress, r.Name); in != nil {
		r.Object = in
	}
	r.CanaryIngress = find[*networkingv1.Ingress](ingresses, kindIngress, r.Name+rollouts.CanarySuffix)
	if routed && r.CanaryIngress == nil {
		// The controller reads a missing canary Ingress from the server.
		r.CanaryIngress = find[*networkingv1.Ingress](a.store.objects, kindIngress, r.Name+rollouts.CanarySuffix)
	}
}

func (a cachedCluster) LiveTrafficRouting(_ context.Context, key types.NamespacedName) (*rollouts.TrafficRouting, error) {
	return find[*rollouts.TrafficRouting](a.store.objects, kindRouting, key.Name), nil
}

func (a cachedCluster) LinkedTrafficRoutings(_ context.Context, r *rollouts.Rollout) ([]string, error) {
	var names []string
	for _, t := range listOf[*rollouts.TrafficRouting](a.view(kindRouting)) {
		if slices.Contains(t.Finalizers, planner.ProgressingFinalizer(r.Name)) {
			names = append(names, t.Name)
		}
	}
	return names, nil
}

// MissingRollouts returns the Rollouts that neither the cache nor the server has.
func (a cachedCluster) MissingRollouts(_ context.Context, r *rollouts.TrafficRouting) ([]string, error) {
	var gone []string
	for _, f := range r.Finalizers {
		name, ok := strings.CutPrefix(f, rollouts.FinalizerProgressing+"/")
		k := key{kindRollout, name}
		if ok && a.view(kindRollout)[k] == nil && a.store.objects[k] == nil {
			gone = append(gone, name)
		}
	}
	return gone, nil
}

// Histories reads from the server, because histories are not cached.
func (a cachedCluster) Histories(_ context.Context, r *rollouts.Rollout) (map[int64]rollouts.RolloutHistoryStatus, error) {
	found := map[int64]rollouts.RolloutHistoryStatus{}
	for _, release := range planner.ReleasesWithoutHistory(r.Status) {
		if h := find[*rollouts.RolloutHistory](a.store.objects, kindHistory, planner.HistoryName(r, release.Number)); h != nil {
			found[release.Number] = *h.Status.DeepCopy()
		}
	}
	return found, nil
}

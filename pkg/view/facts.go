// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// facts are the controller's observations of the objects.
type facts struct {
	planner.Workload
	row workload.Row
	// object is the workload; nil if it does not exist or is not visible.
	object object.Object
	// canaryWorkloads are the Deployments that Weir created for the canary revision.
	// revisionObjects are ReplicaSets or ControllerRevisions. pods are the pods of both.
	canaryWorkloads, revisionObjects []object.Object
	pods                             map[podOwner][]*corev1.Pod
	network                          traffic.Objects
	// route is the current route; nil if a part of the network is not visible.
	route *planner.Route
	// releasedRevision is the revision label of the pods of the release in progress according to the
	// status; empty if there is no release.
	releasedRevision string
	// weight is the canary weight; nil if no router divides requests.
	weight *int32
}

// podOwner is a ReplicaSet, or a workload together with the revision label of the pod.
type podOwner struct {
	owner    types.UID
	revision string
}

// groupPods groups pods by their owner.
func (f *facts) groupPods(pods []object.Object) map[podOwner][]*corev1.Pod {
	all := map[podOwner][]*corev1.Pod{}
	for _, p := range ObjectsAs[*corev1.Pod](Answer{Objects: pods}) {
		at := podOwner{owner: metav1.GetControllerOf(p).UID}
		if at.owner == f.object.GetUID() {
			at.revision = p.Labels[f.row.RevisionKey]
		}
		all[at] = append(all[at], p)
	}
	return all
}

func (s *Observed) computeFacts() facts {
	var f facts
	if row, ok := s.workloadRow(); ok {
		f.row = row
		f.object = s.Workload(row)
	}
	if f.object != nil {
		s.observeWorkload(&f)
	}
	s.observeNetwork(&f)
	return f
}

// DecodeWorkload returns a workload in the Go type of its row; nil if it cannot be decoded.
func DecodeWorkload(row workload.Row, found object.Object) object.Object {
	u, ok := found.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	o, err := row.FromContent(u.Object)
	if err != nil {
		return nil
	}
	o.GetObjectKind().SetGroupVersionKind(row.GVK)
	return o
}

// Workload returns the workload; nil if it does not exist or is not visible.
func (s *Observed) Workload(row workload.Row) object.Object {
	return DecodeWorkload(row, s.objectOf(s.workloadRead(row)))
}

// StoredWorkload returns the workload as it was read, and reports whether it is visible.
func (s *Observed) StoredWorkload(row workload.Row) (found object.Object, isSeen bool) {
	read := s.workloadRead(row)
	return s.objectOf(read), s.Answers[read].isVisible()
}

// observeWorkload assigns the objects to their owners by UID, and observes the workload with its
// row.
func (s *Observed) observeWorkload(f *facts) {
	batch, _ := s.objectOf(s.BatchRead()).(*rollouts.BatchRelease)
	known := planner.HoldStateOf(s.Rollout, batch)
	var beside []object.Object
	for _, o := range s.Answers[canaryWorkloadRead(f.row, f.object.GetName())].Objects {
		if extra := DecodeWorkload(f.row, o); extra != nil {
			beside = append(beside, extra)
		}
	}
	f.canaryWorkloads = f.row.ExtraDeployments(f.object, beside, known)
	var pods []object.Object
	f.revisionObjects, pods = s.ownedObjects(f.row, append([]object.Object{f.object}, f.canaryWorkloads...))
	f.pods = f.groupPods(pods)
	owned := slices.Concat(f.canaryWorkloads, f.revisionObjects)
	if slices.Contains(f.row.Owns, podKind) {
		owned = append(owned, pods...)
	}
	if f.row.OwnsAutoscalers {
		for _, h := range s.Scalers() {
			owned = append(owned, h)
		}
	}
	f.Workload = f.row.Facts(f.object, owned, f.row.HoldOf(f.object, owned, known), nil)
	if p := s.Rollout.Status.Active(); p != nil && s.Rollout.Status.UnderWay() {
		f.releasedRevision = p.PodTemplateHash
	}
}

// ownedObjects returns the revisions and the pods that one of the owners controls.
func (s *Observed) ownedObjects(row workload.Row, owners []object.Object) (sets, pods []object.Object) {
	selector := podSelector(s.objectOf(s.workloadRead(row)))
	if read := revisionRead(row, selector); read != nil {
		sets = controlledBy(s.Answers[*read].Objects, owners)
	}
	return sets, controlledBy(s.Answers[podRead(selector)].Objects, slices.Concat(owners, sets))
}

// OwnedObjects returns the revisions of a workload and, if no ReplicaSet owns the pods, its pods.
func (s *Observed) OwnedObjects(row workload.Row, o object.Object) []object.Object {
	sets, pods := s.ownedObjects(row, []object.Object{o})
	if slices.Contains(row.Owns, podKind) {
		return append(sets, pods...)
	}
	return sets
}

// controlledBy returns the objects that one of the owners controls.
func controlledBy(all, owners []object.Object) []object.Object {
	uids := sets.New[types.UID]()
	for _, owner := range owners {
		uids.Insert(owner.GetUID())
	}
	return slices.DeleteFunc(slices.Clone(all), func(o object.Object) bool {
		controller := metav1.GetControllerOfNoCopy(o)
		return controller == nil || !uids.Has(controller.UID)
	})
}

// Scalers returns the autoscalers of the workload, including disabled ones.
func (s *Observed) Scalers() []*autoscalingv2.HorizontalPodAutoscaler {
	ref := s.Rollout.Spec.WorkloadRef
	return slices.DeleteFunc(ObjectsAs[*autoscalingv2.HorizontalPodAutoscaler](s.Answers[scalerRead]), func(h *autoscalingv2.HorizontalPodAutoscaler) bool {
		return h.Spec.ScaleTargetRef.Kind != ref.Kind || workload.AutoscalerTarget(h) != ref.Name
	})
}

// observeNetwork observes Services and routers.
func (s *Observed) observeNetwork(f *facts) {
	var pods map[string]string
	if f.object != nil {
		pods = f.row.PodLabels(f.object)
	}
	var route *planner.Route
	if f.network, route = s.Network(f.row, pods, nil); route != nil && !route.StableServiceMissing {
		f.route, f.weight = route, weightOf(*route)
	}
}

// Network returns Services and routers, and the route for pods with the labels of a template. The
// route is nil if the Rollout routes no requests, or if a part of the network is not visible.
func (s *Observed) Network(row workload.Row, pods map[string]string, steps []rollouts.Step) (traffic.Objects, *planner.Route) {
	o, ref := traffic.ObjectsOfRollout(s.Rollout, s.ownerReference())
	if ref == nil {
		return o, nil
	}
	o.RevisionKey, o.ServiceName.Namespace, o.ServiceName.Name, o.TemplateLabels = row.RevisionKey, s.Rollout.Namespace, ref.Service, pods
	o.Service, _ = s.objectOf(Read{Role: roleService, Kind: serviceKind, Name: ref.Service}).(*corev1.Service)
	o.CanaryService, _ = s.objectOf(Read{Role: roleService, Kind: serviceKind, Name: ref.Service + rollouts.CanarySuffix}).(*corev1.Service)
	for i := range o.Routers {
		r := &o.Routers[i]
		if !r.HasProvider() {
			continue
		}
		r.Object = s.objectOf(Read{Role: roleRouter, Kind: kindOf(*r), Name: r.Name})
		r.CanaryIngress, _ = s.objectOf(Read{Role: roleRouter, Kind: kindOf(*r), Name: r.Name + rollouts.CanarySuffix}).(*networkingv1.Ingress)
	}
	if slices.ContainsFunc(s.networkReads(), func(r Read) bool { return !s.Answers[r].isVisible() }) {
		return o, nil
	}
	return o, new(traffic.ObserveSteps(o, *ref, steps))
}

// weightOf returns the canary weight; nil if no router divides requests.
func weightOf(r planner.Route) *int32 {
	switch {
	case r.Routed && r.Weight != nil:
		return r.Weight
	case !r.Routed && r.Pinned != "":
		return new(int32)
	default:
		return nil
	}
}

// revisionOf returns stable, update or other for the revision label of pods; empty if there is no
// label.
func (f *facts) revisionOf(value string) string {
	switch {
	case value == "":
		return ""
	case value == f.StableRevision:
		return "stable"
	case value == f.UpdateRevision, value == f.PodTemplateHash, value == f.LiveRevision, value == f.releasedRevision:
		return "update"
	default:
		return "other"
	}
}

// trafficShare returns the percentage of requests that a revision serves; nil if it is unknown.
// Without a router that divides requests, all ready pods serve the same number of requests.
func (f *facts) trafficShare(revision string, ready, of int32) *int32 {
	switch {
	case f.route == nil, f.route.Routed && f.weight == nil: // by their content
		return nil
	case f.weight == nil:
		if of == 0 {
			return nil
		}
		return new(ready * 100 / of)
	case revision == "update":
		return f.weight
	case revision == "stable":
		return new(100 - *f.weight)
	default:
		return new(int32)
	}
}

// revisionLabel returns the revision label of the pods of a ReplicaSet or ControllerRevision. A
// ControllerRevision has the value as a label, as its name, or at the end of its name.
func (f *facts) revisionLabel(set object.Object) string {
	if value := set.GetLabels()[f.row.RevisionKey]; value != "" {
		return value
	}
	for _, value := range f.Revisions {
		if value == set.GetName() || strings.HasSuffix(set.GetName(), "-"+value) {
			return value
		}
	}
	return set.GetName()
}

// ForViewer returns the observations that another viewer may see. hasUnread reports whether this
// viewer may see objects that were not read.
func (s *Observed) ForViewer(isAllowed func(Read) bool) (visible *Observed, hasUnread bool) {
	visible = NewObserved(s.Rollout)
	for next := visible.Next(); len(next) > 0; next = visible.Next() {
		for _, r := range next {
			answer, read := s.Answers[r]
			if !isAllowed(r) {
				visible.Answers[r] = Answer{Forbidden: true}
				continue
			}
			visible.Answers[r] = answer
			hasUnread = hasUnread || !read || answer.Forbidden
		}
	}
	return visible, hasUnread
}

// ForbiddenReads lists what the viewer may not see. Viewers with the same list may share a tree.
func (s *Observed) ForbiddenReads() string {
	var denied []string
	for r, answer := range s.Answers {
		if answer.Forbidden {
			denied = append(denied, r.Permission()+" "+r.Name+" "+r.Labels)
		}
	}
	slices.Sort(denied)
	return strings.Join(denied, "\n")
}

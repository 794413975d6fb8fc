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

// facts are what the controller would think of the objects.
type facts struct {
	planner.Workload
	row workload.Row
	// object is the workload; nil if there is none, or it is not seen.
	object object.Object
	// extras were made beside it, sets keep templates of revisions, pods are those of both.
	extras, sets []object.Object
	pods         map[place][]*corev1.Pod
	network      traffic.Objects
	// route is what the network does; nil where not all of it is seen.
	route *planner.Route
	// released is the label value of the pods of the release under way, as the status says;
	// empty if there is none.
	released string
	// weight is the share of the update revision; nil where requests go to whatever pod.
	weight *int32
}

// place is whose pods are: of a set, or of a revision of the workload.
type place struct {
	owner types.UID
	value string
}

// places sorts pods.
func (f *facts) places(pods []object.Object) map[place][]*corev1.Pod {
	all := map[place][]*corev1.Pod{}
	for _, p := range As[*corev1.Pod](Answer{Objects: pods}) {
		at := place{owner: metav1.GetControllerOf(p).UID}
		if at.owner == f.object.GetUID() {
			at.value = p.Labels[f.row.RevisionKey]
		}
		all[at] = append(all[at], p)
	}
	return all
}

func (s *Seen) facts() facts {
	var f facts
	if row, ok := s.row(); ok {
		f.row = row
		f.object = s.Workload(row)
	}
	if f.object != nil {
		s.observe(&f)
	}
	s.observeNetwork(&f)
	return f
}

// Decoded is a workload in the Go type of its row; nil where it has not that type.
func Decoded(row workload.Row, found object.Object) object.Object {
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

// Workload is the workload; nil if there is none, or it is not seen.
func (s *Seen) Workload(row workload.Row) object.Object {
	return Decoded(row, s.one(s.workloadRead(row)))
}

// Stored is the workload as it was read, and reports whether it may be seen.
func (s *Seen) Stored(row workload.Row) (found object.Object, isSeen bool) {
	read := s.workloadRead(row)
	return s.one(read), s.Answers[read].seen()
}

// observe sorts what was read by whose it is, which uids tell, and asks the row.
func (s *Seen) observe(f *facts) {
	batch, _ := s.one(s.BatchRead()).(*rollouts.BatchRelease)
	known := planner.HoldStateOf(s.Rollout, batch)
	var beside []object.Object
	for _, o := range s.Answers[extraRead(f.row, f.object.GetName())].Objects {
		if extra := Decoded(f.row, o); extra != nil {
			beside = append(beside, extra)
		}
	}
	f.extras = f.row.Extras(f.object, beside, known)
	var pods []object.Object
	f.sets, pods = s.owned(f.row, append([]object.Object{f.object}, f.extras...))
	f.pods = f.places(pods)
	owned := slices.Concat(f.extras, f.sets)
	if slices.Contains(f.row.Owns, podKind) {
		owned = append(owned, pods...)
	}
	if f.row.Scalers {
		for _, h := range s.Scalers() {
			owned = append(owned, h)
		}
	}
	f.Workload = f.row.Facts(f.object, owned, f.row.HoldOf(f.object, owned, known), nil)
	if p := s.Rollout.Status.Active(); p != nil && s.Rollout.Status.UnderWay() {
		f.released = p.PodTemplateHash
	}
}

// owned are the revisions and the pods that one of the owners controls.
func (s *Seen) owned(row workload.Row, owners []object.Object) (sets, pods []object.Object) {
	selector := selectorOf(s.one(s.workloadRead(row)))
	if read := setRead(row, selector); read != nil {
		sets = controlled(s.Answers[*read].Objects, owners)
	}
	return sets, controlled(s.Answers[podRead(selector)].Objects, slices.Concat(owners, sets))
}

// Owned are the revisions of a workload, and its pods where no ReplicaSet owns them.
func (s *Seen) Owned(row workload.Row, o object.Object) []object.Object {
	sets, pods := s.owned(row, []object.Object{o})
	if slices.Contains(row.Owns, podKind) {
		return append(sets, pods...)
	}
	return sets
}

// controlled are the objects that one of the owners controls.
func controlled(all, owners []object.Object) []object.Object {
	uids := sets.New[types.UID]()
	for _, owner := range owners {
		uids.Insert(owner.GetUID())
	}
	return slices.DeleteFunc(slices.Clone(all), func(o object.Object) bool {
		controller := metav1.GetControllerOfNoCopy(o)
		return controller == nil || !uids.Has(controller.UID)
	})
}

// Scalers are the autoscalers of the workload, disabled or not.
func (s *Seen) Scalers() []*autoscalingv2.HorizontalPodAutoscaler {
	ref := s.Rollout.Spec.WorkloadRef
	return slices.DeleteFunc(As[*autoscalingv2.HorizontalPodAutoscaler](s.Answers[scalers]), func(h *autoscalingv2.HorizontalPodAutoscaler) bool {
		return h.Spec.ScaleTargetRef.Kind != ref.Kind || workload.Scaled(h) != ref.Name
	})
}

// observeNetwork asks what Services and routers do.
func (s *Seen) observeNetwork(f *facts) {
	var pods map[string]string
	if f.object != nil {
		pods = f.row.PodLabels(f.object)
	}
	var route *planner.Route
	if f.network, route = s.Network(f.row, pods, nil); route != nil && !route.StableServiceMissing {
		f.route, f.weight = route, weightOf(*route)
	}
}

// Network are Services and routers, and what they do for pods with the labels of a template;
// the route is nil where none is asked for, or not all of it is seen.
func (s *Seen) Network(row workload.Row, pods map[string]string, steps []rollouts.Step) (traffic.Objects, *planner.Route) {
	o, ref := traffic.ObjectsOfRollout(s.Rollout, s.owner())
	if ref == nil {
		return o, nil
	}
	o.RevisionKey, o.ServiceName.Namespace, o.ServiceName.Name, o.TemplateLabels = row.RevisionKey, s.Rollout.Namespace, ref.Service, pods
	o.Service, _ = s.one(Read{Role: roleService, Kind: serviceKind, Name: ref.Service}).(*corev1.Service)
	o.CanaryService, _ = s.one(Read{Role: roleService, Kind: serviceKind, Name: ref.Service + rollouts.CanarySuffix}).(*corev1.Service)
	for i := range o.Routers {
		r := &o.Routers[i]
		if !r.HasProvider() {
			continue
		}
		r.Object = s.one(Read{Role: roleRouter, Kind: kindOf(*r), Name: r.Name})
		r.CanaryIngress, _ = s.one(Read{Role: roleRouter, Kind: kindOf(*r), Name: r.Name + rollouts.CanarySuffix}).(*networkingv1.Ingress)
	}
	if slices.ContainsFunc(s.networkReads(), func(r Read) bool { return !s.Answers[r].seen() }) {
		return o, nil
	}
	return o, new(traffic.ObserveSteps(o, *ref, steps))
}

// weightOf is the share of the update revision; nil where no router divides requests.
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

// revisionOf is stable, update or other, by the label value of pods; empty where there is
// none.
func (f *facts) revisionOf(value string) string {
	switch {
	case value == "":
		return ""
	case value == f.StableRevision:
		return "stable"
	case value == f.UpdateRevision, value == f.PodTemplateHash, value == f.LiveRevision, value == f.released:
		return "update"
	default:
		return "other"
	}
}

// share is how many of the requests a revision serves, in percent; nil if that is not
// known. Without a router that divides them, each ready pod serves as many.
func (f *facts) share(revision string, ready, of int32) *int32 {
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

// valueOf is the label value of the pods whose template a set keeps. A ControllerRevision
// has it as a label, in its name, or at the end of its name.
func (f *facts) valueOf(set object.Object) string {
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

// For is what another viewer sees of the same, and reports whether something that this one
// may see was not read.
func (s *Seen) For(may func(Read) bool) (mine *Seen, unread bool) {
	mine = NewSeen(s.Rollout)
	for next := mine.Next(); len(next) > 0; next = mine.Next() {
		for _, r := range next {
			answer, read := s.Answers[r]
			if !may(r) {
				mine.Answers[r] = Answer{Forbidden: true}
				continue
			}
			mine.Answers[r] = answer
			unread = unread || !read || answer.Forbidden
		}
	}
	return mine, unread
}

// Unseen names what the viewer may not see; the same for all that see as much.
func (s *Seen) Unseen() string {
	var denied []string
	for r, answer := range s.Answers {
		if answer.Forbidden {
			denied = append(denied, r.Permission()+" "+r.Name+" "+r.Labels)
		}
	}
	slices.Sort(denied)
	return strings.Join(denied, "\n")
}

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
	"k8s.io/apimachinery/pkg/runtime"

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
	pods         []*corev1.Pod
	network      traffic.Objects
	// route is what the network does; nil where not all of it is seen.
	route *planner.Route
	// released is the label value of the pods of the release under way, as the status says;
	// empty if there is none.
	released string
	// weight is the share of the update revision; nil where requests go to whatever pod.
	weight *int32
}

func (s *Seen) facts() facts {
	var f facts
	if row, ok := s.row(); ok {
		f.row = row
		f.object = s.decoded(row, s.one(s.workloadRead(row)))
	}
	if f.object != nil {
		s.observe(&f)
	}
	s.observeNetwork(&f)
	return f
}

// decoded is a workload in the Go type of its row.
func (s *Seen) decoded(row workload.Row, found object.Object) object.Object {
	u, ok := found.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	o := row.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
		return nil
	}
	o.GetObjectKind().SetGroupVersionKind(row.GVK)
	return o
}

// observe sorts what was read by whose it is, which uids tell, and asks the row.
func (s *Seen) observe(f *facts) {
	found := s.one(s.workloadRead(f.row))
	selector := selectorOf(found)
	batch, _ := s.one(s.batchRead()).(*rollouts.BatchRelease)
	known := planner.KnownOf(s.Rollout, batch)
	var beside []object.Object
	for _, o := range s.Answers[extraRead(f.row, found.GetName())].Objects {
		if extra := s.decoded(f.row, o); extra != nil {
			beside = append(beside, extra)
		}
	}
	f.extras = f.row.Extras(f.object, beside, known)
	owners := append([]object.Object{f.object}, f.extras...)
	owned := slices.Clone(f.extras)
	if sets := setRead(f.row, selector); sets != nil {
		f.sets = controlled(s.Answers[*sets].Objects, owners)
	}
	owned = append(owned, f.sets...)
	pods := controlled(s.Answers[podRead(selector)].Objects, append(owners, f.sets...))
	for _, o := range pods {
		f.pods = append(f.pods, o.(*corev1.Pod))
	}
	if slices.Contains(f.row.Owns, podKind) {
		owned = append(owned, pods...)
	}
	if f.row.Scalers {
		owned = append(owned, s.scalers(f)...)
	}
	f.Workload = f.row.Facts(f.row.See(f.object, owned, known), owned)
	if p := s.Rollout.Status.Active(); p != nil && s.Rollout.Status.UnderWay() {
		f.released = p.PodTemplateHash
	}
}

// controlled are the objects that one of the owners controls.
func controlled(all, owners []object.Object) []object.Object {
	return slices.DeleteFunc(slices.Clone(all), func(o object.Object) bool {
		return !slices.ContainsFunc(owners, func(owner object.Object) bool { return metav1.IsControlledBy(o, owner) })
	})
}

// scalers are the autoscalers of the workload, disabled or not.
func (s *Seen) scalers(f *facts) []object.Object {
	return slices.DeleteFunc(slices.Clone(s.Answers[Read{Role: roleScaler, Kind: scalerKind}].Objects), func(o object.Object) bool {
		h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
		return !ok || h.Spec.ScaleTargetRef.Kind != f.row.GVK.Kind || workload.Scaled(h) != s.Rollout.Spec.WorkloadRef.Name
	})
}

// observeNetwork asks what Services and routers do.
func (s *Seen) observeNetwork(f *facts) {
	o, ref := traffic.OfRollout(s.Rollout, s.owner())
	if ref == nil {
		return
	}
	o.RevisionKey, o.Stable.Namespace, o.Stable.Name = f.row.RevisionKey, s.Rollout.Namespace, ref.Service
	if f.object != nil {
		o.Template = f.row.PodLabels(f.object)
	}
	o.Service, _ = s.one(Read{Role: roleService, Kind: serviceKind, Name: ref.Service}).(*corev1.Service)
	o.CanaryService, _ = s.one(Read{Role: roleService, Kind: serviceKind, Name: ref.Service + rollouts.CanarySuffix}).(*corev1.Service)
	for i := range o.Routers {
		r := &o.Routers[i]
		if !r.Known() {
			continue
		}
		r.Object = s.one(Read{Role: roleRouter, Kind: kindOf(*r), Name: r.Name})
		r.Beside, _ = s.one(Read{Role: roleRouter, Kind: kindOf(*r), Name: r.Name + rollouts.CanarySuffix}).(*networkingv1.Ingress)
	}
	f.network = o
	if slices.ContainsFunc(s.networkReads(), func(r Read) bool { return !s.Answers[r].seen() }) {
		return
	}
	if route := traffic.ObserveSteps(o, *ref, nil); !route.Unserved {
		f.route, f.weight = &route, weightOf(route)
	}
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
	case f.Is(value), value == f.LiveRevision, value == f.released:
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
	mine = &Seen{Rollout: s.Rollout, Answers: map[Read]Answer{}}
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

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"encoding/json"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

// Actions of other actors in a story: they edit routers and Services, hold objects that Weir uses,
// and a gateway reports the status of a route.

// rerule changes a route without Weir.
func (s *story) rerule(name string, change func(p inPlaceRouter, u *unstructured.Unstructured)) {
	for _, u := range s.w.routersInPlace(name) {
		next := clone(u)
		change(inPlaceRouters[keyOf(u).kind], next)
		s.w.runAs("user", func() error { return s.w.store.update(next) })
		return
	}
	s.Fatalf("there is no route %s", name)
}

func (s *story) route(c command) { s.w.createRouter(kindOf(c.words[1]), c.words[2]) }

// own adds a rule of the owner that leads to another Service: "apply" replaces all rules by the
// owner's manifest, and "append" keeps the current rules.
func (s *story) own(c command) {
	s.rerule(c.words[1], func(p inPlaceRouter, u *unstructured.Unstructured) {
		spec := u.Object["spec"].(map[string]any)
		switch {
		case c.has("apply"):
			u.Object["spec"] = p.spec(c.words[1], "docs")
		case c.has("append"):
			spec[p.rulesField] = append(spec[p.rulesField].([]any), p.spec("docs")[p.rulesField].([]any)...)
		}
		if label := c.get("label", ""); label != "" {
			u.SetLabels(map[string]string{"owner": label})
		}
	})
}

// meddle changes the weight of the canary backend without Weir.
func (s *story) meddle(c command) {
	weight := s.number(c.get("weight", "99"))
	for _, o := range s.w.store.objects {
		if k := keyOf(o); k.kind == kindIngress && k.name == c.words[1]+rollouts.CanarySuffix {
			next := clone(o)
			next.GetAnnotations()["nginx.ingress.kubernetes.io/canary-weight"] = strconv.Itoa(int(weight))
			s.w.runAs("user", func() error { return s.w.store.update(next) })
			return
		}
	}
	s.rerule(c.words[1], func(p inPlaceRouter, u *unstructured.Unstructured) {
		for _, way := range p.listBackends(u) {
			if strings.Contains(way.to, rollouts.CanarySuffix[1:]) {
				way.at["weight"] = int64(weight)
			}
		}
	})
}

// occupy makes another Rollout own a canary object, or edit a router in place.
func (s *story) occupy(c command) {
	k, name, _ := strings.Cut(c.words[1], "/")
	theirs := metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "rollouts.kruise.io/v1beta1", Kind: "Rollout", Name: "other", UID: "uid-of-other"},
	}}
	switch kind(k) {
	case kindService:
		s.w.runAs("other", func() error { return s.w.store.create(&corev1.Service{ObjectMeta: theirs}) })
	case kindIngress:
		s.w.runAs("other", func() error { return s.w.store.create(&networkingv1.Ingress{ObjectMeta: theirs}) })
	case kindBatch:
		ref := &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
		all := rollouts.ReleasePlan{Batches: []rollouts.Batch{{CanaryReplicas: intstr.FromString("100%")}}, BatchPartition: new(int32), RollingStyle: rollouts.StylePartition}
		s.w.runAs("other", func() error {
			return s.w.store.create(&rollouts.BatchRelease{ObjectMeta: theirs, Spec: rollouts.BatchReleaseSpec{WorkloadRef: ref, Plan: all}})
		})
	default:
		s.w.otherReleases = []traffic.OtherRelease{{Release: "rollout/other", Object: c.words[1]}}
		s.rerule(name, func(p inPlaceRouter, u *unstructured.Unstructured) {
			original, err := json.Marshal(map[string]any{"spec": u.Object["spec"]})
			if err != nil {
				s.Fatal(err)
			}
			u.Object["spec"] = p.spec(name, "docs")
			u.SetAnnotations(map[string]string{
				rollouts.AnnotationRouted: `{"traffic":"30%","for":"rollout/other"}`, rollouts.AnnotationOriginalSpec: string(original),
			})
		})
	}
}

// keep adds a finalizer of another actor to an object.
func (s *story) keep(c command) {
	k, name, _ := strings.Cut(c.words[1], "/")
	o := s.w.store.objects[key{kind(k), name}]
	switch k {
	case "set":
		o = s.w.setOf(name, c.has("off"))
	case "extra":
		o = s.w.extraOf(name)
	}
	next := clone(o)
	next.SetFinalizers(append(next.GetFinalizers(), "example.com/keep"))
	if c.has("off") {
		next.SetFinalizers(nil)
	}
	s.w.check.excusesPodFailures = true // an ending that waits for this finalizer is excused
	s.w.runAs("user", func() error { return s.w.store.update(next) })
}

// orphan removes the owner reference of a ReplicaSet. The Deployment adopts the set again if its
// selector matches.
func (s *story) orphan(c command) {
	next := clone(s.w.setOf(c.words[1], false))
	next.OwnerReferences = nil
	if c.has("labels") {
		next.Labels = map[string]string{hashKey: next.Labels[hashKey]}
	}
	s.w.check.excusesPodFailures = true // the loss of its pods is excused
	s.w.runAs("user", func() error { return s.w.store.update(next) })
}

// relabel gives the ReplicaSet of one image the hash label of the set of another image.
func (s *story) relabel(c command) {
	next := clone(s.w.setOf(c.words[1], false))
	next.Labels[hashKey] = s.w.setOf(c.get("as", ""), false).Labels[hashKey]
	s.w.runAs("user", func() error { return s.w.store.update(next) })
}

// taken makes another Rollout acquire a Service or a router first.
func (s *story) taken(c command) {
	if s.w.otherReleases = nil; !c.has("free") {
		s.w.otherReleases = []traffic.OtherRelease{{Release: "rollout/other", Object: c.words[1], AcquiredFirst: true}}
	}
}

// garble changes Weir's annotations on a route.
func (s *story) garble(c command) {
	_, name, _ := strings.Cut(c.words[1], "/")
	s.rerule(name, func(p inPlaceRouter, u *unstructured.Unstructured) {
		switch {
		case c.has("off"):
			u.SetAnnotations(nil)
		case c.has("garbled"):
			u.SetAnnotations(map[string]string{rollouts.AnnotationRouted: "{", rollouts.AnnotationOriginalSpec: "{"})
		default:
			chosen, err := json.Marshal(map[string]any{"spec": p.spec("chosen")})
			if err != nil {
				s.Fatal(err)
			}
			u.SetAnnotations(map[string]string{rollouts.AnnotationRouted: `{"traffic":"100%"}`, rollouts.AnnotationOriginalSpec: string(chosen)})
		}
	})
}

// reselect makes a Service select the pods of another application. Other keys of the selector stay.
func (s *story) reselect(c command) {
	next := clone(find[*corev1.Service](s.w.store.objects, kindService, c.words[1]))
	if revision := c.get("revision", ""); revision != "" {
		next.Spec.Selector[hashKey] = s.w.setOf(revision, false).Labels[hashKey]
	} else {
		next.Spec.Selector["app"] = c.words[2]
	}
	s.w.runAs("user", func() error { return s.w.store.update(next) })
}

// setOf returns the ReplicaSet of an image. extraOf returns the canary Deployment.
func (w *world) setOf(tag string, deleted bool) *appsv1.ReplicaSet {
	for _, rs := range listOf[*appsv1.ReplicaSet](w.store.objects) {
		if imageOfSet(rs) == tag && (rs.DeletionTimestamp != nil) == deleted {
			return rs
		}
	}
	return nil
}

func (w *world) extraOf(name string) *appsv1.Deployment {
	for _, d := range listOf[*appsv1.Deployment](w.store.objects) {
		if d.Labels[rollouts.LabelCanaryDeployment] == name {
			return d
		}
	}
	return nil
}

// say makes a gateway report a status for the current generation of the route.
func (s *story) say(c command) {
	verdicts := map[string]map[string]string{
		"accepts": {"Accepted": "True", "ResolvedRefs": "True"},
		"refuses": {"Accepted": "False", "ResolvedRefs": "True"},
		"loses":   {"Accepted": "True", "ResolvedRefs": "False"},
	}
	for _, u := range s.w.routersInPlace(c.words[1]) {
		next := clone(u)
		var conditions []any
		for _, name := range []string{"Accepted", "ResolvedRefs"} {
			status := verdicts[c.words[2]][name]
			conditions = append(conditions, map[string]any{
				"type": name, "status": status, "observedGeneration": u.GetGeneration(), "reason": "Test", "message": "as told",
			})
		}
		next.Object["status"] = map[string]any{"parents": []any{map[string]any{
			"parentRef": map[string]any{"name": "edge"}, "conditions": conditions,
		}}}
		s.w.runAs("gateway", func() error { return s.w.store.updateStatus(next) })
	}
}

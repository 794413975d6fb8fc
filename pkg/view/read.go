// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package view answers which objects belong to a Rollout, and how each of them is: the
// tree. It is pure: it says what to read, and makes nodes of the answers with the code that
// decides. It must not know who reads, nor for whom.
package view

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Roles of nodes.
const (
	roleRollout  = "rollout"
	roleBatch    = "batchRelease"
	roleWorkload = "workload"
	roleRevision = "revision"
	rolePod      = "pod"
	rolePods     = "pods"
	roleService  = "service"
	roleRouter   = "router"
	roleScaler   = "scaler"
	roleBudget   = "budget"
)

// Read is a question about objects of the namespace: one by its name, or those that a
// selector of labels selects.
type Read struct {
	Role         string
	Kind         schema.GroupVersionKind
	Name, Labels string
}

// Resource is that of the kind.
func (r Read) Resource() schema.GroupVersionResource {
	resource, _ := meta.UnsafeGuessKindToResource(r.Kind)
	return resource
}

// Verb is what the viewer has to be allowed.
func (r Read) Verb() string {
	if r.Name != "" {
		return "get"
	}
	return "list"
}

// Permission says that in a message.
func (r Read) Permission() string {
	return r.Verb() + " " + r.Resource().GroupResource().String()
}

// Answer is what came of a Read.
type Answer struct {
	Objects []object.Object
	// Forbidden reports whether the viewer may not see them.
	Forbidden bool
	// Failure says why they could not be read; empty if they could.
	Failure string
}

func (a Answer) seen() bool { return !a.Forbidden && a.Failure == "" }

// Seen is a Rollout, and the answers to what was read for a viewer.
type Seen struct {
	Rollout *rollouts.Rollout
	Answers map[Read]Answer
	// also is read besides.
	also []Read
}

// NewSeen is a Rollout of which nothing else was read, and what to read besides.
func NewSeen(r *rollouts.Rollout, also ...Read) *Seen {
	return &Seen{Rollout: r, Answers: map[Read]Answer{}, also: also}
}

// Next are the reads that are still to be done. Some depend on the answers to others.
func (s *Seen) Next() []Read {
	return slices.DeleteFunc(s.reads(), func(r Read) bool {
		_, done := s.Answers[r]
		return done
	})
}

var (
	batchKind   = v1beta1.SchemeGroupVersion.WithKind("BatchRelease")
	routingKind = schema.GroupVersionKind{Group: rollouts.GroupName, Version: "v1alpha1", Kind: "TrafficRouting"}
	podKind     = corev1.SchemeGroupVersion.WithKind("Pod")
	serviceKind = corev1.SchemeGroupVersion.WithKind("Service")
	scalerKind  = autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")
	budgetKind  = policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")
	quotaKind   = corev1.SchemeGroupVersion.WithKind("ResourceQuota")
)

// Reads of all objects of a kind.
var (
	scalers = Read{Role: roleScaler, Kind: scalerKind}
	Budgets = Read{Role: roleBudget, Kind: budgetKind}
	Quotas  = Read{Kind: quotaKind}
)

// reads are all of them, as far as the answers tell.
func (s *Seen) reads() []Read {
	reads := append([]Read{s.BatchRead()}, s.also...)
	row, ok := s.row()
	if ok {
		main := s.workloadRead(row)
		reads = append(reads, main)
		if found := s.one(main); found != nil {
			reads = append(reads, s.ownedReads(row, found)...)
		}
		reads = append(reads, scalers, Budgets)
	}
	if read := s.routingRead(); read.Name != "" {
		reads = append(reads, read)
	}
	return append(reads, s.networkReads()...)
}

// routingRead is that of a TrafficRouting; without a name where there is none.
func (s *Seen) routingRead() Read {
	read := Read{Role: roleRouter, Kind: routingKind}
	if _, plan := s.Rollout.Spec.Strategy.Active(); plan != nil {
		read.Name = plan.TrafficRouting()
	}
	return read
}

// BatchRead is that of the BatchRelease.
func (s *Seen) BatchRead() Read {
	return Read{Role: roleBatch, Kind: batchKind, Name: s.Rollout.Name}
}

func (s *Seen) workloadRead(row workload.Row) Read {
	return Read{Role: roleWorkload, Kind: row.GVK, Name: s.Rollout.Spec.WorkloadRef.Name}
}

// ownedReads are those of what the workload owns, and of what is made beside it.
func (s *Seen) ownedReads(row workload.Row, found object.Object) []Read {
	selector := selectorOf(found)
	if selector == "" {
		return nil
	}
	var reads []Read
	if row.Extra {
		reads = append(reads, extraRead(row, found.GetName()))
	}
	if sets := setRead(row, selector); sets != nil {
		reads = append(reads, *sets)
		if !s.Answers[*sets].seen() && !slices.Contains(row.Owns, podKind) {
			return reads // whose the pods are is not known
		}
	}
	return append(reads, podRead(selector))
}

// setRead is that of what keeps the templates of revisions.
func setRead(row workload.Row, selector string) *Read {
	for _, kind := range row.Owns {
		if kind != podKind {
			return &Read{Role: roleRevision, Kind: kind, Labels: selector}
		}
	}
	return nil
}

func extraRead(row workload.Row, name string) Read {
	return Read{Role: roleWorkload, Kind: row.GVK, Labels: labels.Set{rollouts.LabelCanaryDeployment: name}.String()}
}

func podRead(selector string) Read { return Read{Role: rolePod, Kind: podKind, Labels: selector} }

// networkReads are those of Services and routers. A router of which no row of the table
// knows the kind is routed by a script; it is not read.
func (s *Seen) networkReads() []Read {
	o, ref := traffic.ObjectsOfRollout(s.Rollout, s.owner())
	if ref == nil {
		return nil
	}
	var reads []Read
	add := func(role string, kind schema.GroupVersionKind, name string, beside bool) {
		reads = append(reads, Read{Role: role, Kind: kind, Name: name})
		if beside {
			reads = append(reads, Read{Role: role, Kind: kind, Name: name + rollouts.CanarySuffix})
		}
	}
	add(roleService, serviceKind, ref.Service, !o.Shared)
	for _, r := range o.Routers {
		if r.HasProvider() {
			add(roleRouter, kindOf(r), r.Name, r.UsesCanaryIngress())
		}
	}
	return reads
}

// kindOf is the kind of a router in a version that each cluster with the kind serves.
func kindOf(r traffic.Router) schema.GroupVersionKind {
	version := r.Version
	if version == "" {
		version = "v1"
	}
	return r.Kind.WithVersion(version)
}

// As are the objects of an answer in their Go type.
func As[T object.Object](a Answer) (all []T) {
	for _, o := range a.Objects {
		if typed, ok := o.(T); ok {
			all = append(all, typed)
		}
	}
	return all
}

// Unknown says what was not seen, and why.
func (s *Seen) Unknown() (all []string) {
	for r, a := range s.Answers {
		why := "it takes permission to " + r.Permission()
		if !a.Forbidden {
			why = r.Permission() + ": " + a.Failure
		}
		if !a.seen() && !slices.Contains(all, why) {
			all = append(all, why)
		}
	}
	slices.Sort(all)
	return all
}

// row is that of the workload.
func (s *Seen) row() (workload.Row, bool) {
	ref := s.Rollout.Spec.WorkloadRef
	if ref == nil {
		return workload.Row{}, false
	}
	row, ok := workload.Find(ref.APIVersion, ref.Kind, rollouts.StyleFor(&s.Rollout.Spec.Strategy, ref))
	if !ok {
		row, ok = workload.Find(ref.APIVersion, ref.Kind, rollouts.StylePartition)
	}
	return row, ok
}

func (s *Seen) owner() metav1.OwnerReference {
	return *metav1.NewControllerRef(s.Rollout, v1beta1.SchemeGroupVersion.WithKind("Rollout"))
}

// one is the object of a name; nil if it is not there, or not seen.
func (s *Seen) one(r Read) object.Object {
	for _, o := range s.Answers[r].Objects {
		if o.GetName() == r.Name {
			return o
		}
	}
	return nil
}

// selectorOf selects the pods of a workload and what it owns beside them; empty if that
// cannot be read.
func selectorOf(found object.Object) string {
	u, ok := found.(*unstructured.Unstructured)
	if !ok {
		return ""
	}
	m, _, err := unstructured.NestedMap(u.Object, "spec", "selector")
	if err != nil || len(m) == 0 {
		return ""
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m, &selector); err != nil {
		return ""
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return ""
	}
	return parsed.String()
}

// typed are the kinds that are read by their types.
var typed = map[schema.GroupVersionKind]func() object.Object{
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):         func() object.Object { return &appsv1.ReplicaSet{} },
	appsv1.SchemeGroupVersion.WithKind("ControllerRevision"): func() object.Object { return &appsv1.ControllerRevision{} },
	networkingv1.SchemeGroupVersion.WithKind("Ingress"):      func() object.Object { return &networkingv1.Ingress{} },

	serviceKind: func() object.Object { return &corev1.Service{} },
	podKind:     func() object.Object { return &corev1.Pod{} },
	scalerKind:  func() object.Object { return &autoscalingv2.HorizontalPodAutoscaler{} },
	budgetKind:  func() object.Object { return &policyv1.PodDisruptionBudget{} },
	quotaKind:   func() object.Object { return &corev1.ResourceQuota{} },
}

// Trimmed is an object with what a node or a plan needs.
func (r Read) Trimmed(u *unstructured.Unstructured) (object.Object, error) {
	u.SetManagedFields(nil)
	r.trimAnnotations(u)
	empty := typed[r.Kind]
	if empty == nil {
		return u, nil
	}
	into := empty()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", strings.ToLower(r.Kind.Kind), u.GetName(), err)
	}
	switch o := into.(type) {
	case *corev1.Pod:
		trimPod(o)
	case *autoscalingv2.HorizontalPodAutoscaler:
		trimScaler(o)
	case *policyv1.PodDisruptionBudget:
		trimBudget(o)
	}
	return into, nil
}

// native is the prefix of annotations that the native controllers write on ReplicaSets.
const native = "deployment.kubernetes.io/"

// trimAnnotations drops the annotations that decide nothing. Those of a router are its routes.
// Weir and the native controllers keep records in those of workloads, revisions and Services.
func (r Read) trimAnnotations(u *unstructured.Unstructured) {
	var kept map[string]string
	switch r.Role {
	case roleRouter:
		return
	case roleWorkload, roleRevision, roleService:
		kept = u.GetAnnotations() // a copy
		for key := range kept {
			if key != rollouts.LabelRolloutID && !rollouts.IsRecord(key) && !strings.HasPrefix(key, native) {
				delete(kept, key)
			}
		}
	}
	u.SetAnnotations(kept)
}

// trimScaler drops what an autoscaler measures.
func trimScaler(h *autoscalingv2.HorizontalPodAutoscaler) {
	h.Labels, h.Spec.Metrics, h.Spec.Behavior = nil, nil, nil
	h.Status = autoscalingv2.HorizontalPodAutoscalerStatus{DesiredReplicas: h.Status.DesiredReplicas, CurrentReplicas: h.Status.CurrentReplicas}
}

// trimBudget drops which pods were disrupted, and why.
func trimBudget(p *policyv1.PodDisruptionBudget) {
	p.Labels, p.Status.DisruptedPods, p.Status.Conditions = nil, nil, nil
}

// trimPod drops most of what users write into pods.
func trimPod(p *corev1.Pod) {
	var containers []corev1.Container
	for _, c := range p.Spec.Containers[:min(len(p.Spec.Containers), most)] {
		containers = append(containers, corev1.Container{Name: c.Name, Image: rollouts.Clean(c.Image, maxImage)})
	}
	p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName, Containers: containers}
}

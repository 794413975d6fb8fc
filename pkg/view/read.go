// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package view builds the tree of objects that belong to a Rollout, with the health of each object. It is
// pure: it lists the reads that a tree needs, and builds nodes from the results with the same code that
// decides about releases. It must not know who reads, nor for whom.
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

// Read is a read of objects of the namespace: one object by its name, or the objects that a label
// selector selects.
type Read struct {
	Role         string
	Kind         schema.GroupVersionKind
	Name, Labels string
}

// Resource returns the resource of the kind.
func (r Read) Resource() schema.GroupVersionResource {
	resource, _ := meta.UnsafeGuessKindToResource(r.Kind)
	return resource
}

// Verb returns the verb that the viewer must be allowed to use.
func (r Read) Verb() string {
	if r.Name != "" {
		return "get"
	}
	return "list"
}

// Permission returns the verb and the resource for a message.
func (r Read) Permission() string {
	return r.Verb() + " " + r.Resource().GroupResource().String()
}

// Answer is the result of a Read.
type Answer struct {
	Objects []object.Object
	// Forbidden reports whether the viewer may not see the objects.
	Forbidden bool
	// Failure says why the objects could not be read; empty if they could.
	Failure string
}

func (a Answer) isVisible() bool { return !a.Forbidden && a.Failure == "" }

// Observed has a Rollout, and the results of the reads for a viewer.
type Observed struct {
	Rollout *rollouts.Rollout
	Answers map[Read]Answer
	// additional are reads that the caller needs besides those of the tree.
	additional []Read
}

// NewObserved returns a Rollout without any results, and with additional reads.
func NewObserved(r *rollouts.Rollout, also ...Read) *Observed {
	return &Observed{Rollout: r, Answers: map[Read]Answer{}, additional: also}
}

// Next returns the reads that are still to be done. Some depend on the results of others.
func (s *Observed) Next() []Read {
	return slices.DeleteFunc(s.allReads(), func(r Read) bool {
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
	scalerRead = Read{Role: roleScaler, Kind: scalerKind}
	BudgetRead = Read{Role: roleBudget, Kind: budgetKind}
	QuotaRead  = Read{Kind: quotaKind}
)

// allReads returns all reads, as far as they are known from the results so far.
func (s *Observed) allReads() []Read {
	reads := append([]Read{s.BatchRead()}, s.additional...)
	row, ok := s.workloadRow()
	if ok {
		main := s.workloadRead(row)
		reads = append(reads, main)
		if found := s.objectOf(main); found != nil {
			reads = append(reads, s.ownedReads(row, found)...)
		}
		reads = append(reads, scalerRead, BudgetRead)
	}
	if read := s.routingRead(); read.Name != "" {
		reads = append(reads, read)
	}
	return append(reads, s.networkReads()...)
}

// routingRead returns the read of the TrafficRouting. It has no name if the Rollout uses none.
func (s *Observed) routingRead() Read {
	read := Read{Role: roleRouter, Kind: routingKind}
	if _, plan := s.Rollout.Spec.Strategy.Active(); plan != nil {
		read.Name = plan.TrafficRouting()
	}
	return read
}

// BatchRead returns the read of the BatchRelease.
func (s *Observed) BatchRead() Read {
	return Read{Role: roleBatch, Kind: batchKind, Name: s.Rollout.Name}
}

func (s *Observed) workloadRead(row workload.Row) Read {
	return Read{Role: roleWorkload, Kind: row.GVK, Name: s.Rollout.Spec.WorkloadRef.Name}
}

// ownedReads returns the reads of the objects that the workload owns, and of the canary Deployment.
func (s *Observed) ownedReads(row workload.Row, found object.Object) []Read {
	selector := podSelector(found)
	if selector == "" {
		return nil
	}
	var reads []Read
	if row.UsesExtraDeployment {
		reads = append(reads, canaryWorkloadRead(row, found.GetName()))
	}
	if sets := revisionRead(row, selector); sets != nil {
		reads = append(reads, *sets)
		if !s.Answers[*sets].isVisible() && !slices.Contains(row.Owns, podKind) {
			return reads // without revisions, the owners of the pods are unknown
		}
	}
	return append(reads, podRead(selector))
}

// revisionRead returns the read of the ReplicaSets or ControllerRevisions.
func revisionRead(row workload.Row, selector string) *Read {
	for _, kind := range row.Owns {
		if kind != podKind {
			return &Read{Role: roleRevision, Kind: kind, Labels: selector}
		}
	}
	return nil
}

func canaryWorkloadRead(row workload.Row, name string) Read {
	return Read{Role: roleWorkload, Kind: row.GVK, Labels: labels.Set{rollouts.LabelCanaryDeployment: name}.String()}
}

func podRead(selector string) Read { return Read{Role: rolePod, Kind: podKind, Labels: selector} }

// networkReads returns the reads of Services and routers. A router without a built-in provider uses
// a script; it is not read.
func (s *Observed) networkReads() []Read {
	o, ref := traffic.ObjectsOfRollout(s.Rollout, s.ownerReference())
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

// kindOf returns the kind of a router in a version that every cluster with the kind serves.
func kindOf(r traffic.Router) schema.GroupVersionKind {
	version := r.Version
	if version == "" {
		version = "v1"
	}
	return r.Kind.WithVersion(version)
}

// ObjectsAs returns the objects of an answer that have the Go type T.
func ObjectsAs[T object.Object](a Answer) (all []T) {
	for _, o := range a.Objects {
		if typed, ok := o.(T); ok {
			all = append(all, typed)
		}
	}
	return all
}

// UnreadReasons returns what is not visible, and why.
func (s *Observed) UnreadReasons() (all []string) {
	for r, a := range s.Answers {
		why := "you need permission to " + r.Permission()
		if !a.Forbidden {
			why = r.Permission() + ": " + a.Failure
		}
		if !a.isVisible() && !slices.Contains(all, why) {
			all = append(all, why)
		}
	}
	slices.Sort(all)
	return all
}

// workloadRow returns the row of the workload's kind.
func (s *Observed) workloadRow() (workload.Row, bool) {
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

func (s *Observed) ownerReference() metav1.OwnerReference {
	return *metav1.NewControllerRef(s.Rollout, v1beta1.SchemeGroupVersion.WithKind("Rollout"))
}

// objectOf returns the object that a read names; nil if it does not exist or is not visible.
func (s *Observed) objectOf(r Read) object.Object {
	for _, o := range s.Answers[r].Objects {
		if o.GetName() == r.Name {
			return o
		}
	}
	return nil
}

// podSelector returns the selector of a workload's pods; empty if it cannot be read.
func podSelector(found object.Object) string {
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

// typedKinds are the kinds that are decoded into Go types.
var typedKinds = map[schema.GroupVersionKind]func() object.Object{
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):         func() object.Object { return &appsv1.ReplicaSet{} },
	appsv1.SchemeGroupVersion.WithKind("ControllerRevision"): func() object.Object { return &appsv1.ControllerRevision{} },
	networkingv1.SchemeGroupVersion.WithKind("Ingress"):      func() object.Object { return &networkingv1.Ingress{} },

	serviceKind: func() object.Object { return &corev1.Service{} },
	podKind:     func() object.Object { return &corev1.Pod{} },
	scalerKind:  func() object.Object { return &autoscalingv2.HorizontalPodAutoscaler{} },
	budgetKind:  func() object.Object { return &policyv1.PodDisruptionBudget{} },
	quotaKind:   func() object.Object { return &corev1.ResourceQuota{} },
}

// TrimObject returns an object with only the fields that a node or a plan needs.
func (r Read) TrimObject(u *unstructured.Unstructured) (object.Object, error) {
	u.SetManagedFields(nil)
	r.trimAnnotations(u)
	empty := typedKinds[r.Kind]
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

// nativePrefix is the prefix of annotations that the Deployment controller writes to ReplicaSets.
const nativePrefix = "deployment.kubernetes.io/"

// trimAnnotations removes the annotations that no decision needs. The annotations of a router are
// its routes. In the annotations of workloads, revisions and Services, Weir and the native
// controllers keep records.
func (r Read) trimAnnotations(u *unstructured.Unstructured) {
	var kept map[string]string
	switch r.Role {
	case roleRouter:
		return
	case roleWorkload, roleRevision, roleService:
		kept = u.GetAnnotations() // a copy
		for key := range kept {
			if key != rollouts.LabelRolloutID && !rollouts.IsRecord(key) && !strings.HasPrefix(key, nativePrefix) {
				delete(kept, key)
			}
		}
	}
	u.SetAnnotations(kept)
}

// trimScaler removes the metrics of an autoscaler.
func trimScaler(h *autoscalingv2.HorizontalPodAutoscaler) {
	h.Labels, h.Spec.Metrics, h.Spec.Behavior = nil, nil, nil
	h.Status = autoscalingv2.HorizontalPodAutoscalerStatus{DesiredReplicas: h.Status.DesiredReplicas, CurrentReplicas: h.Status.CurrentReplicas}
}

// trimBudget removes the disrupted pods and the conditions of a budget.
func trimBudget(p *policyv1.PodDisruptionBudget) {
	p.Labels, p.Status.DisruptedPods, p.Status.Conditions = nil, nil, nil
}

// trimPod removes most of the fields that users set in pods.
func trimPod(p *corev1.Pod) {
	var containers []corev1.Container
	for _, c := range p.Spec.Containers[:min(len(p.Spec.Containers), maxNodes)] {
		containers = append(containers, corev1.Container{Name: c.Name, Image: rollouts.Clean(c.Image, maxImage)})
	}
	p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName, Containers: containers}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/weir-rollouts/weir/pkg/object"
)

// native is a kind of workload: the objects that its owner writes, and the controller that acts on
// them. A new kind is a new row of natives.
type native interface {
	// newWorkload returns a workload as its owner writes it.
	newWorkload(a app) object.Object
	template(o object.Object) *corev1.PodTemplateSpec
	size(o object.Object) *int32
	// sync runs one sync of its controller.
	sync(s *store, name string)
	// isStopped reports whether the controller replaces no pods. resume removes the stop.
	isStopped(o object.Object) bool
	resume(o object.Object)
	// describeStrategy describes the update strategy in transcripts.
	describeStrategy(o object.Object) string
	// limits returns the owner's maxSurge and maxUnavailable in pods.
	limits(owner object.Object, n int32) (surge, unavailable int32)
	// restoreStrategy restores the owner's strategy.
	restoreStrategy(o, owner object.Object)
	// hasOwnerStrategy reports whether the strategy is the owner's. hasOwnerSpec also compares the
	// other fields that a release changes. Both ignore a stop.
	hasOwnerStrategy(o, owner object.Object) bool
	hasOwnerSpec(o, owner object.Object) bool
}

var natives = map[kind]native{kindDeployment: deployments{}, kindStatefulSet: statefulSets{}, kindDaemonSet: daemonSets{}, kindCloneSet: cloneSets{}}

// kindNames are the kinds as object references spell them.
var kindNames = map[kind]string{kindDeployment: "Deployment", kindStatefulSet: "StatefulSet", kindDaemonSet: "DaemonSet", kindCloneSet: "CloneSet"}

// versionOf returns the API version of a kind.
func versionOf(k kind) string {
	if k == kindCloneSet {
		return "apps.kruise.io/v1alpha1"
	}
	return "apps/v1"
}

func nativeOf(o object.Object) native { return natives[keyOf(o).kind] }

// workloads returns the workloads of a snapshot, sorted by name.
func workloads(s snapshot) []object.Object {
	var out []object.Object
	for k, o := range s {
		if natives[k.kind] != nil {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b object.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// appOf returns the workload with a name, or nil.
func appOf(s snapshot, name string) object.Object {
	for k := range natives {
		if o := s[key{k, name}]; o != nil {
			return o
		}
	}
	return nil
}

func replicasOf(o object.Object) int32                   { return *nativeOf(o).size(o) }
func templateOf(o object.Object) *corev1.PodTemplateSpec { return nativeOf(o).template(o) }

// pinnedRevision returns the revision that the selector of a Service requires.
func pinnedRevision(svc *corev1.Service) string {
	return cmp.Or(svc.Spec.Selector[hashKey], svc.Spec.Selector[ordinalKey])
}

type deployments struct{}

func (deployments) template(o object.Object) *corev1.PodTemplateSpec {
	return &o.(*appsv1.Deployment).Spec.Template
}
func (deployments) size(o object.Object) *int32 { return o.(*appsv1.Deployment).Spec.Replicas }

func (deployments) sync(s *store, name string)     { syncDeployment(s, name) }
func (deployments) isStopped(o object.Object) bool { return o.(*appsv1.Deployment).Spec.Paused }
func (deployments) resume(o object.Object)         { o.(*appsv1.Deployment).Spec.Paused = false }

func (deployments) describeStrategy(o object.Object) string {
	d := o.(*appsv1.Deployment)
	words := []string{string(d.Spec.Strategy.Type)}
	if d.Spec.Paused {
		words = append(words, "paused")
	}
	return strings.Join(words, ", ")
}

func (deployments) limits(owner object.Object, n int32) (surge, unavailable int32) {
	return limitsOf(owner.(*appsv1.Deployment).Spec.Strategy.RollingUpdate, n)
}

func (deployments) restoreStrategy(o, owner object.Object) {
	o.(*appsv1.Deployment).Spec.Strategy = owner.(*appsv1.Deployment).Spec.Strategy
}

func (deployments) hasOwnerStrategy(o, owner object.Object) bool {
	return equality.Semantic.DeepEqual(o.(*appsv1.Deployment).Spec.Strategy, owner.(*appsv1.Deployment).Spec.Strategy)
}

func (d deployments) hasOwnerSpec(o, owner object.Object) bool {
	return d.hasOwnerStrategy(o, owner) && *o.(*appsv1.Deployment).Spec.RevisionHistoryLimit == *owner.(*appsv1.Deployment).Spec.RevisionHistoryLimit
}

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

// native is a kind of workload in the world: what its owner writes, and what its
// controller makes of that. Another kind is another row of natives.
type native interface {
	// deployed is a workload as its owner writes it.
	deployed(a app) object.Object
	template(o object.Object) *corev1.PodTemplateSpec
	size(o object.Object) *int32
	// sync is one turn of its controller.
	sync(s *store, name string)
	// stopped reports whether its controller replaces nothing; resume ends that.
	stopped(o object.Object) bool
	resume(o object.Object)
	// governed is how its controller is told to treat it, for people.
	governed(o object.Object) string
	// limits are the pods more and fewer that its owner allows at a size.
	limits(owner object.Object, n int32) (surge, unavailable int32)
	// adopt writes the owner's strategy over what is there.
	adopt(o, owner object.Object)
	// rested reports whether the strategy is the owner's, and returned that all is; but
	// for the stop, if there is one.
	rested(o, owner object.Object) bool
	returned(o, owner object.Object) bool
}

var natives = map[kind]native{kindDeployment: deployments{}, kindStatefulSet: statefulSets{}, kindDaemonSet: daemonSets{}, kindCloneSet: cloneSets{}}

// kindNames are the kinds as references and guards spell them.
var kindNames = map[kind]string{kindDeployment: "Deployment", kindStatefulSet: "StatefulSet", kindDaemonSet: "DaemonSet", kindCloneSet: "CloneSet"}

// versionOf is the version of the API of a kind.
func versionOf(k kind) string {
	if k == kindCloneSet {
		return "apps.kruise.io/v1alpha1"
	}
	return "apps/v1"
}

func nativeOf(o object.Object) native { return natives[keyOf(o).kind] }

// workloads are those of a snapshot, by name.
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

// appOf is the one of a name; nil if there is none.
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

// pinnedRevision is the revision that a selector wants.
func pinnedRevision(svc *corev1.Service) string {
	return cmp.Or(svc.Spec.Selector[hashKey], svc.Spec.Selector[ordinalKey])
}

type deployments struct{}

func (deployments) template(o object.Object) *corev1.PodTemplateSpec {
	return &o.(*appsv1.Deployment).Spec.Template
}
func (deployments) size(o object.Object) *int32 { return o.(*appsv1.Deployment).Spec.Replicas }

func (deployments) sync(s *store, name string)   { syncDeployment(s, name) }
func (deployments) stopped(o object.Object) bool { return o.(*appsv1.Deployment).Spec.Paused }
func (deployments) resume(o object.Object)       { o.(*appsv1.Deployment).Spec.Paused = false }

func (deployments) governed(o object.Object) string {
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

func (deployments) adopt(o, owner object.Object) {
	o.(*appsv1.Deployment).Spec.Strategy = owner.(*appsv1.Deployment).Spec.Strategy
}

func (deployments) rested(o, owner object.Object) bool {
	return equality.Semantic.DeepEqual(o.(*appsv1.Deployment).Spec.Strategy, owner.(*appsv1.Deployment).Spec.Strategy)
}

func (d deployments) returned(o, owner object.Object) bool {
	return d.rested(o, owner) && *o.(*appsv1.Deployment).Spec.RevisionHistoryLimit == *owner.(*appsv1.Deployment).Spec.RevisionHistoryLimit
}

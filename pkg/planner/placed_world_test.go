// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/object"
)

// DaemonSets in the world, and the nodes of their pods.

type daemonSets struct{}

func (daemonSets) newWorkload(a app) object.Object {
	missing := intstr.Parse(a.unavail)
	d := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: a.name, Annotations: map[string]string{"owner": "team"}},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": a.name}}, RevisionHistoryLimit: &a.history,
			Template: podTemplate(a),
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &missing},
			},
		},
	}
	if a.onDelete {
		d.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	}
	return d
}

func (daemonSets) template(o object.Object) *corev1.PodTemplateSpec {
	return &o.(*appsv1.DaemonSet).Spec.Template
}

// size returns the number of nodes that the controller has counted. No user writes it.
func (daemonSets) size(o object.Object) *int32 {
	return &o.(*appsv1.DaemonSet).Status.DesiredNumberScheduled
}

func (daemonSets) sync(s *store, name string) { syncDaemonSet(s, name) }

func (daemonSets) isStopped(o object.Object) bool {
	return o.(*appsv1.DaemonSet).Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType
}

func (daemonSets) resume(o object.Object) {
	o.(*appsv1.DaemonSet).Spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
}

func (daemonSets) describeStrategy(o object.Object) string {
	return string(o.(*appsv1.DaemonSet).Spec.UpdateStrategy.Type)
}

func (daemonSets) limits(owner object.Object, n int32) (surge, unavailable int32) {
	u := owner.(*appsv1.DaemonSet).Spec.UpdateStrategy.RollingUpdate
	if u == nil || u.MaxUnavailable == nil {
		return 0, 1
	}
	m, _ := intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, int(n), true)
	return 0, max(int32(m), 1)
}

func (daemonSets) restoreStrategy(o, owner object.Object) {
	o.(*appsv1.DaemonSet).Spec.UpdateStrategy = *owner.(*appsv1.DaemonSet).Spec.UpdateStrategy.DeepCopy()
}

// hasOwnerStrategy ignores the type of the strategy, which holds the pods of an aborted release.
func (daemonSets) hasOwnerStrategy(o, owner object.Object) bool {
	a, b := o.(*appsv1.DaemonSet).Spec.UpdateStrategy, owner.(*appsv1.DaemonSet).Spec.UpdateStrategy
	return equality.Semantic.DeepEqual(a.RollingUpdate, b.RollingUpdate)
}

func (n daemonSets) hasOwnerSpec(o, owner object.Object) bool {
	a, b := o.(*appsv1.DaemonSet).Spec, owner.(*appsv1.DaemonSet).Spec
	return n.hasOwnerStrategy(o, owner) && (n.isStopped(o) || !n.isStopped(owner)) && *a.RevisionHistoryLimit == *b.RevisionHistoryLimit
}

// nodeOf returns the name of the node of a pod. Both names have the same number.
func nodeOf(p *corev1.Pod) string { return fmt.Sprintf("node-%d", ordinalOf(p)) }

// addNode adds a node.
func (w *world) addNode(name string) {
	w.observer.did(name + " joins")
	w.runAs("user", func() error { return w.store.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}) })
}

// removeNode removes a node and its pods.
func (w *world) removeNode(name string) {
	w.deleteObject(kindNode, name)
	for _, p := range podsIn(w.store.objects) {
		if nodeOf(p) == name {
			w.runAs("gc", func() error { w.store.removeEndedPod(p); return nil })
		}
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// statefulSetView is a StatefulSet with its pods and revisions by role.
type statefulSetView struct {
	set     *appsv1.StatefulSet
	history history
	// pods are those within the size, by ordinal; nil where there is none.
	pods []*corev1.Pod
	// beyond reports whether pods are still there that the size has no place for.
	beyond bool
	// live is the revision of the live template, and update the one to release;
	// they differ while that is set aside. Empty until the native controller
	// has seen the template.
	live, update string
	// aside is the update revision while its template is set aside, else empty.
	aside string
	// stable served before.
	stable string
}

func sortOut(s *appsv1.StatefulSet, owned []object.Object) statefulSetView {
	o := statefulSetView{set: s, history: historyOf(s, owned, (*appsv1.ControllerRevision).GetName)}
	o.place(owned)
	named := ""
	if o.settled() && s.APIVersion != "" && s.GroupVersionKind() != statefulSetKind {
		named = s.Status.UpdateRevision
	}
	o.live = o.history.live(&s.Spec.Template, named)
	o.stable = o.history.served(s.Status.CurrentRevision, o.live, o.revisions())
	_, driven := readOwner(s)
	if named := s.Labels[rollouts.LabelStableRevision]; named != "" && (driven || held(s)) {
		o.stable = named
	}
	o.update = o.live
	if v, _ := readDriving(s); v.SetAsideRevision != "" && o.live == o.stable {
		o.update, o.aside = v.SetAsideRevision, v.SetAsideRevision
	}
	return o
}

// place puts its pods in their order.
func (o *statefulSetView) place(owned []object.Object) {
	o.pods = make([]*corev1.Pod, o.replicas())
	for _, obj := range owned {
		p, ok := obj.(*corev1.Pod)
		if !ok || !metav1.IsControlledBy(p, o.set) {
			continue
		}
		switch i := ordinal(o.set, p); {
		case i >= 0 && i < len(o.pods):
			o.pods[i] = p
		case i >= 0 && counts(p):
			o.beyond = true
		}
	}
}

// revisions counts the pods of each, also of those on their way out.
func (o statefulSetView) revisions() map[string]int32 {
	pods := map[string]int32{}
	for _, p := range o.pods {
		if p != nil {
			pods[revisionOf(p)]++
		}
	}
	return pods
}

// ordinal counts from the first pod; -1 if the pod has none.
func ordinal(s *appsv1.StatefulSet, p *corev1.Pod) int {
	n, err := strconv.Atoi(p.Name[strings.LastIndex(p.Name, "-")+1:])
	if err != nil {
		return -1
	}
	if first := s.Spec.Ordinals; first != nil {
		n -= int(first.Start)
	}
	return n
}

func (o statefulSetView) settled() bool { return o.set.Status.ObservedGeneration >= o.set.Generation }

func (o statefulSetView) replicas() int32 {
	if o.set.Spec.Replicas == nil {
		return 1
	}
	return *o.set.Spec.Replicas
}

func revisionOf(p *corev1.Pod) string { return p.Labels[appsv1.ControllerRevisionHashLabelKey] }

// counts reports whether a pod is neither on its way out nor done.
func counts(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded
}

func isReady(p *corev1.Pod) bool {
	c := condition(p, corev1.PodReady)
	return counts(p) && c != nil && c.Status == corev1.ConditionTrue
}

// lastStays reports whether the native controller would take the update revision for the
// current one as soon as every pod runs it, and make all that come of it.
func (o statefulSetView) lastStays() bool { return o.update != o.stable }

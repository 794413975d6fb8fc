// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// sample is a workload of one kind; pods returns its pod template.
type sample struct {
	plain  object.Object
	native bool
	pods   func(object.Object) *corev1.PodTemplateSpec
}

var samples = map[string]sample{
	"Deployment":  {deployment(), true, func(o object.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.Deployment).Spec.Template }},
	"StatefulSet": {statefulSet(), true, func(o object.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.StatefulSet).Spec.Template }},
	"DaemonSet":   {daemonSet(), true, func(o object.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.DaemonSet).Spec.Template }},
	"CloneSet": {cloneSet(), false, func(o object.Object) *corev1.PodTemplateSpec {
		return &o.(*workload.CloneSet).Spec.Template
	}},
	"advanced StatefulSet": {advancedStatefulSet(), false, func(o object.Object) *corev1.PodTemplateSpec {
		return &o.(*workload.AdvancedStatefulSet).Spec.Template
	}},
	"advanced DaemonSet": {advancedDaemonSet(), false, func(o object.Object) *corev1.PodTemplateSpec {
		return &o.(*workload.AdvancedDaemonSet).Spec.Template
	}},
}

func advancedStatefulSet() *workload.AdvancedStatefulSet {
	n := statefulSet()
	return &workload.AdvancedStatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet"},
		ObjectMeta: n.ObjectMeta,
		Spec: workload.AdvancedStatefulSetSpec{
			Replicas: n.Spec.Replicas, Template: n.Spec.Template,
			UpdateStrategy: workload.AdvancedStatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
		},
	}
}

func copyOf(o object.Object) object.Object { return o.DeepCopyObject().(object.Object) }

// in returns the Rollout of a sample.
func (s sample) in(disabled bool) named {
	return named{liveRollout(func(r *rollouts.Rollout) {
		r.Spec.WorkloadRef.APIVersion, r.Spec.WorkloadRef.Kind = kindOf(s.plain).GroupVersion().String(), kindOf(s.plain).Kind
		r.Spec.Disabled = disabled
	})}
}

// written is a change of the annotations or labels of an object.
type written func(m map[string]string, key string)

func adds(m map[string]string, key string)    { m[key] = "forged" }
func removes(m map[string]string, key string) { delete(m, key) }

func edited(o object.Object, key string, w written) object.Object {
	o = copyOf(o)
	labels, annotations := maps.Clone(o.GetLabels()), maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	w(annotations, key)
	if key != rollouts.LabelWorkloadType || len(labels) == 0 {
		w(labels, key)
	}
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	return o
}

// recordKeys are the keys that Weir uses, and keys that Weir may use in the future.
var recordKeys = []string{
	rollouts.AnnotationInProgress, rollouts.AnnotationControlInfo, rollouts.AnnotationDeploymentStrategy,
	rollouts.AnnotationDeploymentExtraStatus, rollouts.AnnotationOriginalStrategy, rollouts.AnnotationWantedSpec,
	rollouts.LabelStableRevision, rollouts.LabelControlled, rollouts.LabelCanaryDeployment,
	"rollouts.kruise.io/some-day", "batchrelease.rollouts.kruise.io/some-day",
}

// Only Weir can add, change or remove a record on a workload that is held or that a Rollout in use
// references.
func TestRecords(t *testing.T) {
	t.Parallel()
	asked := asker(t)
	for path, admit := range admissionPaths(t) {
		for kind, s := range samples {
			if !s.native && path != "webhook" {
				continue
			}
			for _, way := range []string{"update", "template", "status"} {
				for _, held := range []bool{false, true} {
					for _, unnamed := range []bool{false, true} {
						t.Run(fmt.Sprintf("%s/%s/%s/held=%t/unnamed=%t", path, kind, way, held, unnamed), func(t *testing.T) {
							t.Parallel()
							for _, key := range append(recordKeys, rollouts.LabelRolloutID) {
								recordsStay(t, admit, asked, s, way, held, unnamed, key)
							}
						})
					}
				}
			}
		}
	}
}

func recordsStay(t *testing.T, admit admissionPath, asked func(sent) bool, s sample, way string, held, unnamed bool, key string) {
	t.Helper()
	all := s.in(unnamed)
	bare := copyOf(s.plain)
	if held {
		row, _ := findRow(kindOf(bare), all)
		row.Hold(bare, "web", false)
	}
	for name, c := range map[string]struct{ old, update object.Object }{
		"adds":    {bare, edited(bare, key, adds)},
		"changes": {edited(bare, key, func(m map[string]string, k string) { m[k] = "stored" }), edited(bare, key, adds)},
		"removes": {edited(bare, key, func(m map[string]string, k string) { m[k] = "stored" }), edited(bare, key, removes)},
	} {
		if key == rollouts.AnnotationInProgress && !held && name != "adds" {
			continue // it is held then
		}
		if way == "template" {
			s.pods(c.update).Spec.Containers[0].Image = "v2"
		}
		request := sent{as: "alice", old: c.old, update: copyOf(c.update)}
		if way == "status" {
			request.subresource = "status"
		}
		want := c.update
		if held || !unnamed || way == "status" {
			want = c.old
		}
		labels, annotations := maps.Clone(want.GetLabels()), maps.Clone(want.GetAnnotations())
		if key == rollouts.LabelRolloutID {
			labels, annotations = maps.Clone(c.update.GetLabels()), maps.Clone(c.update.GetAnnotations())
		}
		if !held && !unnamed && way != "status" && (way == "template" || key == rollouts.LabelRolloutID) {
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[rollouts.AnnotationInProgress] = `{"rolloutName":"web"}`
			delete(annotations, rollouts.AnnotationOriginalStrategy)
		}
		got, refused := admit(t, all, request)
		if refused != "" {
			t.Errorf("%s %s: refused: %s", name, key, refused)
		}
		if key == rollouts.AnnotationOriginalStrategy && way == "template" {
			delete(got.GetAnnotations(), key) // what a hold makes of it is its own
			delete(annotations, key)
		}
		if value := got.GetAnnotations()[key]; key == rollouts.AnnotationWantedSpec && value != "forged" {
			delete(got.GetAnnotations(), key) // one that is stored is taken up by whoever sees it
			delete(annotations, key)
		}
		if !maps.Equal(got.GetLabels(), labels) {
			t.Errorf("%s %s: labels (-want +got):\n%s", name, key, cmp.Diff(labels, got.GetLabels()))
		}
		if !maps.Equal(got.GetAnnotations(), annotations) {
			t.Errorf("%s %s: annotations (-want +got):\n%s", name, key, cmp.Diff(annotations, got.GetAnnotations()))
		}
		request.as = weir
		if asked(request) {
			t.Errorf("%s %s: the webhook is asked about a write of Weir's own", name, key)
		}
	}
}

// A created workload loses records only if a Rollout in use references it. kube-apiserver calls the webhook
// only for objects with records.
func TestRecordsOfNew(t *testing.T) {
	t.Parallel()
	asked := asker(t)
	for path, admit := range admissionPaths(t) {
		for kind, s := range samples {
			if !s.native && path != "webhook" {
				continue
			}
			t.Run(path+"/"+kind, func(t *testing.T) {
				t.Parallel()
				for _, key := range recordKeys {
					made := edited(edited(s.plain, key, adds), rollouts.LabelRolloutID, adds)
					if path == "policies" && (key == rollouts.AnnotationInProgress || key == rollouts.AnnotationControlInfo) {
						continue // it may be what a workload is to be restored by
					}
					for want, all := range map[object.Object]named{made: s.in(true), edited(s.plain, rollouts.LabelRolloutID, adds): s.in(false)} {
						got, refused := admit(t, all, sent{as: "alice", update: copyOf(made)})
						if refused != "" || !maps.Equal(got.GetLabels(), want.GetLabels()) || !maps.Equal(got.GetAnnotations(), want.GetAnnotations()) {
							t.Errorf("%s: made (-want +got):\n%s%s", key, cmp.Diff(want, got), refused)
						}
					}
				}
				if asked(sent{as: "alice", update: edited(s.plain, rollouts.LabelRolloutID, adds)}) {
					t.Error("the webhook is asked about one without records")
				}
			})
		}
	}
}

// TestMadeAgain exports a workload during its release and creates it again while its Rollout is in use. The
// webhook restores the owner's fields in the same request. The policies cannot read the records, and leave
// that to weir-controller.
func TestMadeAgain(t *testing.T) {
	t.Parallel()
	for path, admit := range admissionPaths(t) {
		for kind, s := range samples {
			if !s.native && path != "webhook" {
				continue
			}
			t.Run(path+"/"+kind, func(t *testing.T) {
				t.Parallel()
				all := s.in(false)
				want := copyOf(s.plain)
				if d, ok := want.(*appsv1.Deployment); ok {
					three := intstr.FromInt32(3)
					d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &three, MaxUnavailable: &three}
					d.Spec.RevisionHistoryLimit = new(int32(3))
				}
				exported := copyOf(want)
				row, _ := findRow(kindOf(exported), all)
				row.Hold(exported, "web", false)
				for _, c := range row.SetTarget(exported, nil, workload.HoldFromRecords(exported), planner.SetTarget{Target: planner.Target{Partition: intstr.FromString("50%"), Owner: "gone"}},
					metav1.OwnerReference{Kind: "BatchRelease", Name: "web", UID: "gone"}) {
					if c.Base == exported {
						exported = c.Want
					}
				}
				got, refused := admit(t, all, sent{as: "alice", update: copyOf(exported)})
				if path == "policies" {
					want = exported
				}
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); s.native && diff != "" || refused != "" {
					t.Errorf("made (-want +got):\n%s%s", diff, refused)
				}
				if facts := row.Observe(got, nil, workload.HoldFromRecords(got)); path != "policies" && (row.Held(got) || facts.Paused || facts.Target != nil || facts.HasManagedFields) {
					t.Errorf("what is left: %+v", facts)
				}
			})
		}
	}
}

// kube-apiserver does not call the webhook for a status update that changes no record.
func TestStatusStaysInside(t *testing.T) {
	t.Parallel()
	asked := asker(t)
	for kind, s := range samples {
		old, update := copyOf(s.plain), copyOf(s.plain)
		s.pods(update).Spec.Containers[0].Image = "v2"
		update.SetAnnotations(map[string]string{"deployment.kubernetes.io/revision": "2"})
		if asked(sent{as: "alice", subresource: "status", old: old, update: update}) {
			t.Errorf("asked about the status of a %s", kind)
		}
	}
}

// An object that is visible to the selector stays visible; another one may become visible.
func TestVisible(t *testing.T) {
	t.Parallel()
	for path, admit := range admissionPaths(t) {
		for kind, s := range samples {
			if !s.native && path != "webhook" {
				continue
			}
			hidden, other := copyOf(s.plain), copyOf(s.plain)
			hidden.SetLabels(nil)
			other.SetLabels(map[string]string{rollouts.LabelWorkloadType: "other"})
			for name, c := range map[string]struct{ old, update, want object.Object }{
				"removed": {s.plain, hidden, s.plain}, "changed": {s.plain, other, s.plain}, "added": {hidden, s.plain, s.plain},
			} {
				got, _ := admit(t, s.in(false), sent{as: "alice", old: c.old, update: copyOf(c.update)})
				if !maps.Equal(got.GetLabels(), c.want.GetLabels()) {
					t.Errorf("%s: %s %s: %v", path, kind, name, got.GetLabels())
				}
			}
		}
	}
}

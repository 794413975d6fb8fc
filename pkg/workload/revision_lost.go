// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// ControllerRevisions may be deleted in the middle of a release. Only their controller
// makes them: that of the live template when it looks at the workload, and so that of
// the stable template when that is set again. What was in it is on file.

// AskAgain has the native controller look at a workload: any write of it does that.
func AskAgain(obj object.Object, how planner.AskAgain) []object.Change {
	want := obj.DeepCopyObject().(object.Object)
	annotate(want, rollouts.AnnotationAskedAgain, how.At)
	return change(obj, want)
}

// keptTemplate is what is filed of a ControllerRevision.
type keptTemplate struct {
	Template *corev1.PodTemplateSpec `json:"template"`
}

// File implements Adapter. A revision is named by the whole name of its object, or by
// the end of it.
func (baseAdapter) File(obj object.Object, owned []object.Object, revision string) *File {
	for _, o := range owned {
		cr, ok := o.(*appsv1.ControllerRevision)
		if !ok || !metav1.IsControlledBy(cr, obj) || cr.Name != revision && short(cr.Name) != revision {
			continue
		}
		if t := (history{"": cr}).template(""); t != nil {
			return &File{Name: cr.Name, Spec: []byte(encode(keptTemplate{t}))}
		}
	}
	return nil
}

func (f File) template() *corev1.PodTemplateSpec {
	var kept keptTemplate
	if err := json.Unmarshal(f.Spec, &kept); err != nil {
		return nil
	}
	return kept.Template
}

// Kept implements Adapter. A revision of the live template that has another name than
// the one that was lost is the stable one.
func (baseAdapter) Kept(obj object.Object, _ []object.Object, kept File) planner.Kept {
	t := kept.template()
	if t == nil {
		return planner.Kept{}
	}
	return planner.Kept{Template: digest(t), Live: samePods(t, podTemplateOf(obj))}
}

// Remake implements Adapter: the stable template is set, and its controller makes the
// rest. What was live is set aside, unless it is to go for good.
func (baseAdapter) Remake(obj object.Object, _, _ []object.Object, kept File, how planner.RemakeStable) []object.Change {
	t := kept.template()
	if t == nil {
		return nil
	}
	want := obj.DeepCopyObject().(object.Object)
	*podTemplateOf(want) = *t
	setAside(want, how.SetAsideRevision)
	label(want, rollouts.LabelStableRevision, how.Revision)
	return change(obj, want)
}

// podTemplateOf is the template of a workload whose pods its own controller makes.
func podTemplateOf(obj object.Object) *corev1.PodTemplateSpec {
	switch w := obj.(type) {
	case *appsv1.StatefulSet:
		return &w.Spec.Template
	case *AdvancedStatefulSet:
		return &w.Spec.Template
	case *appsv1.DaemonSet:
		return &w.Spec.Template
	case *AdvancedDaemonSet:
		return &w.Spec.Template
	case *CloneSet:
		return &w.Spec.Template
	default:
		return &corev1.PodTemplateSpec{}
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

const controllerRevision = "ControllerRevision"

// history has the ControllerRevisions of a workload, by the label value of its pods. The native
// controller keeps earlier templates in them.
type history map[string]*appsv1.ControllerRevision

func historyOf(obj metav1.Object, owned []object.Object, name func(*appsv1.ControllerRevision) string) history {
	h := history{}
	for _, o := range owned {
		if cr, ok := o.(*appsv1.ControllerRevision); ok && metav1.IsControlledBy(cr, obj) {
			h[name(cr)] = cr
		}
	}
	return h
}

// template returns the template of a revision; nil if it is gone or unreadable.
func (h history) template(name string) *corev1.PodTemplateSpec {
	t, _ := h.read(name)
	return t
}

// unknown returns the unknown fields of the template of a revision (see UnknownFields).
func (h history) unknown(name string) UnknownFields {
	_, unknown := h.read(name)
	return unknown
}

// digest returns the SHA-256 digest of the template of a revision; empty if it is gone or
// unreadable.
func (h history) digest(name string) string {
	t, unknown := h.read(name)
	return withUnknown(digestWithLabels(t), unknown)
}

// read returns the template of a revision and its unknown fields. It decodes the revision as the
// kind's controller does: keys are case-sensitive, and the last of two equal keys wins.
func (h history) read(name string) (*corev1.PodTemplateSpec, UnknownFields) {
	cr := h[name]
	if cr == nil {
		return nil, ""
	}
	var patch struct {
		Spec struct {
			Template *struct {
				Patch                  string `json:"$patch"`
				corev1.PodTemplateSpec `json:",inline"`
			} `json:"template"`
		} `json:"spec"`
	}
	unclear, err := kjson.UnmarshalStrict(cr.Data.Raw, &patch)
	switch {
	case err != nil || patch.Spec.Template == nil:
		return nil, ""
	case len(unclear) == 0 && slices.Contains([]string{"", "replace"}, patch.Spec.Template.Patch):
		return &patch.Spec.Template.PodTemplateSpec, ""
	}
	return readTree(cr.Data.Raw)
}

// readTree is the slow path of read, for templates with unknown fields or repeated keys.
func readTree(data []byte) (*corev1.PodTemplateSpec, UnknownFields) {
	var content map[string]any
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, ""
	}
	spec, _ := content["spec"].(map[string]any)
	tree, ok := spec["template"].(map[string]any)
	if !ok {
		return nil, ""
	}
	if tree["$patch"] == "replace" {
		delete(tree, "$patch") // every native controller writes it
	}
	t := &corev1.PodTemplateSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, t); err != nil {
		return nil, ""
	}
	return t, unknownOf(tree)
}

// revisionWithTemplate returns the newest revision with the template of a workload. It is empty
// until the native controller has observed the template.
func (h history) revisionWithTemplate(f fields) string {
	var newest string
	for name, cr := range h {
		if newest != "" && cr.Revision < h[newest].Revision {
			continue
		}
		kept, unknown := h.read(name)
		if kept != nil && sameWholeTemplate(kept, f.template) && (f.unknown == nil || *f.unknown == unknown) {
			newest = name
		}
	}
	return newest
}

// liveRevision returns the revision of the live template. A controller that does not belong to
// Kubernetes may not store the whole template. Then the revision named in the status is used if it
// is the newest.
func (h history) liveRevision(f fields, named string) string {
	if r := h.revisionWithTemplate(f); r != "" || h[named] == nil {
		return r
	}
	for name := range h {
		if h.number(name) > h.number(named) {
			return ""
		}
	}
	return named
}

// servedRevision returns the revision that served before the live one, judged by the pods of each
// revision. The revision named in the status is used if pods of it exist, or if no pod shows
// another. Otherwise a user who may write the status could choose any revision.
func (h history) servedRevision(named, live string, pods map[string]int32) string {
	most := ""
	for revision, n := range pods {
		if revision != live && (most == "" || n > pods[most] || n == pods[most] && h.number(revision) > h.number(most)) {
			most = revision
		}
	}
	if most == "" || named != live && pods[named] > 0 {
		return named
	}
	return most
}

// number returns the number of a revision, which increases with each template.
func (h history) number(revision string) int64 {
	if cr := h[revision]; cr != nil {
		return cr.Revision
	}
	return 0
}

func (h history) names() []string {
	var names []string
	for name := range h {
		names = append(names, name)
	}
	return names
}

// writeTarget writes a target to the workload, and keeps its controller from deleting the stable
// revision.
func (v view) writeTarget(want object.Object, style rollouts.Style, to planner.Target, aside planner.Revision, owner metav1.OwnerReference) {
	next := v.hold.withAside(aside).withTarget(style, to, v.stable, owner.UID)
	raiseLimit(&next.strategy, v.subjectOf(want).fields().historyLimit)
	writeController(want, owner)
	next.writeRecords(want)
}

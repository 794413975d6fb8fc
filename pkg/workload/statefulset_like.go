// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// statefulSetLike releases StatefulSets of any other group like native ones, if they
// have the same fields.
type statefulSetLike struct{ statefulSet }

// statefulSetLikeRow is the row of a StatefulSet of a group that the table does not know.
func statefulSetLikeRow(gvk schema.GroupVersionKind, style rollouts.Style) (Row, bool) {
	for _, r := range Table {
		if r.GVK == statefulSetKind && gvk.Kind == r.GVK.Kind && strings.Contains(gvk.Group, ".") && style == r.Style {
			r.GVK, r.Adapter = gvk, statefulSetLike{statefulSet{statefulSetLabel}}
			return r, true
		}
	}
	return Row{}, false
}

// Observe implements Adapter.
func (a statefulSetLike) Observe(obj object.Object, owned []object.Object) planner.Workload {
	w := a.statefulSet.Observe(obj, owned)
	if missing := missing(obj.(*appsv1.StatefulSet), owned); missing != "" {
		w.UnsupportedReason = cmp.Or(w.UnsupportedReason, "the StatefulSet has no "+missing+", and is released only if it has what one of apps/v1 has")
	}
	return w
}

// missing names a field that a release needs and that the object lacks. The
// controller of a new object may not have written its status yet.
func missing(s *appsv1.StatefulSet, owned []object.Object) string {
	revisions := historyOf(s, owned, (*appsv1.ControllerRevision).GetName)
	switch st := s.Status; {
	case held(s):
		return ""
	case len(s.Spec.Template.Spec.Containers) == 0:
		return "pods in spec.template"
	case st.ObservedGeneration == 0:
		return "status.observedGeneration"
	case st.UpdateRevision == "":
		return "status.updateRevision"
	case revisions[st.CurrentRevision] == nil:
		return "ControllerRevision of the name in status.currentRevision"
	default:
		return ""
	}
}

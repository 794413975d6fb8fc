// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// admit returns the patch that an update needs, or nil, and what was made of it.
func (h *Handler) admit(ctx context.Context, request *admissionv1.AdmissionRequest) ([]byte, verdict, error) {
	if request.Operation != admissionv1.Update || request.SubResource != "" || request.UserInfo.Username == h.Controller {
		return nil, verdictPassed, nil
	}
	kind := schema.GroupVersionKind(request.Kind)
	row, ok := rowOf(kind, nil)
	if !ok {
		return nil, verdictPassed, nil
	}
	before, err := decode(row, request.OldObject)
	if err != nil {
		return nil, verdictUndecided, err
	}
	after, err := decode(row, request.Object)
	if err != nil {
		return nil, verdictUndecided, err
	}
	named, err := h.naming(ctx, request, before, after)
	if err != nil {
		return nil, verdictUndecided, err
	}
	row, _ = rowOf(kind, named) // in the style of a Rollout
	admitted := after.DeepCopyObject().(object.Object)
	made := judge(row, before, admitted, named)
	change, err := patch(after, admitted)
	if err != nil {
		return nil, verdictUndecided, err
	}
	return change, made, nil
}

// naming finds the Rollouts of a workload.
func (h *Handler) naming(ctx context.Context, request *admissionv1.AdmissionRequest, before, after object.Object) ([]*rollouts.Rollout, error) {
	kind := schema.GroupVersionKind(request.Kind)
	ref := rollouts.ObjectRef{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: request.Name}
	named, err := h.Rollouts.Naming(request.Namespace, ref)
	if err != nil {
		return nil, err
	}
	row, _ := rowOf(kind, named)
	if !row.Changed(before, after) || row.Held(before) || slices.ContainsFunc(named, planner.Holds) {
		return named, nil
	}
	// Who has seen the Rollout Healthy may be faster than our watch.
	return h.Rollouts.Stored(ctx, request.Namespace, ref)
}

// judge changes the update as planner.Admit says.
func judge(row workload.Row, before, update object.Object, named []*rollouts.Rollout) verdict {
	judged := planner.Admit(planner.Admission{
		Held: row.Held(before), Changed: row.Changed(before, update), Rollouts: named,
	})
	made := verdictPassed
	switch {
	case judged.Keep:
		made = verdictKept
		row.Keep(before, update)
	case judged.Hold:
		made = verdictHeld
		row.Hold(update, judged.By)
	}
	keepVisible(before, update, named)
	return made
}

// keepVisible puts the label back without which kube-apiserver would not ask
// here again, as long as a Rollout that is in service names the workload.
func keepVisible(before, update metav1.Object, named []*rollouts.Rollout) {
	value, had := before.GetLabels()[rollouts.LabelWorkloadType]
	if !had || update.GetLabels()[rollouts.LabelWorkloadType] == value {
		return
	}
	if slices.ContainsFunc(named, planner.Holds) {
		labels := maps.Clone(update.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels[rollouts.LabelWorkloadType] = value
		update.SetLabels(labels)
		return
	}
}

// rowOf is the row of the kind, in the style of a Rollout that names it if there is one.
func rowOf(kind schema.GroupVersionKind, named []*rollouts.Rollout) (workload.Row, bool) {
	for _, r := range named {
		style := rollouts.StyleFor(&r.Spec.Strategy, r.Spec.WorkloadRef)
		if row, ok := workload.Find(kind.GroupVersion().String(), kind.Kind, style); ok {
			return row, true
		}
	}
	return workload.Find(kind.GroupVersion().String(), kind.Kind, rollouts.StylePartition)
}

func decode(row workload.Row, raw runtime.RawExtension) (object.Object, error) {
	typed := row.New()
	if err := json.Unmarshal(raw.Raw, typed); err != nil {
		return nil, fmt.Errorf("decoding a %s: %w", row.GVK.Kind, err)
	}
	return typed, nil
}

// patch compares two typed objects, so that fields which this binary does not
// know yet stay out of it.
func patch(after, admitted object.Object) ([]byte, error) {
	sent, err := json.Marshal(after)
	if err != nil {
		return nil, fmt.Errorf("encoding the update: %w", err)
	}
	want, err := json.Marshal(admitted)
	if err != nil {
		return nil, fmt.Errorf("encoding the admitted update: %w", err)
	}
	operations, err := jsonpatch.CreatePatch(sent, want)
	if err != nil {
		return nil, fmt.Errorf("comparing the update: %w", err)
	}
	if len(operations) == 0 {
		return nil, nil
	}
	p, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return p, nil
}

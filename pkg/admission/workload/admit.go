// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// answer is what is said about a request: a patch, or why it is refused.
type answer struct {
	patch   []byte
	refusal string
	verdict verdict
	// admitted is what becomes of one that is made; nil if that is the object judged.
	admitted object.Object
}

// concerns reports whether a request can matter. Of the subresources, scale has
// nothing of a workload but its size, while status has metadata.
func (h *Handler) concerns(request *admissionv1.AdmissionRequest) bool {
	switch {
	case request.UserInfo.Username == h.Controller:
		return false
	case request.Operation == admissionv1.Update:
		return request.SubResource == "" || request.SubResource == statusResource
	default:
		return request.Operation == admissionv1.Create && request.SubResource == ""
	}
}

const statusResource = "status"

// admit says what becomes of a request.
func (h *Handler) admit(ctx context.Context, request *admissionv1.AdmissionRequest) (answer, error) {
	kind := schema.GroupVersionKind(request.Kind)
	row, ok := rowOf(kind, nil)
	if !ok || !h.concerns(request) {
		return answer{verdict: verdictPassed}, nil
	}
	undecided := answer{verdict: verdictUndecided}
	before, after, err := objectsOf(row, request)
	if err != nil {
		return undecided, err
	}
	if request.Operation == admissionv1.Update {
		if why := workload.Crowded(before, after); why != "" {
			return answer{refusal: why, verdict: verdictRefused}, nil
		}
	}
	admitted, said := after.DeepCopyObject().(object.Object), answer{verdict: verdictPassed}
	if request.SubResource == statusResource {
		// Whoever names it: nobody has to write metadata this way.
		workload.KeepRecords(before, admitted)
	} else if said, err = h.judge(ctx, request, before, admitted); err != nil {
		return undecided, err
	}
	if said.admitted != nil {
		admitted = said.admitted
	}
	if said.patch, err = patch(request.Object.Raw, after, admitted); err != nil {
		return undecided, err
	}
	return said, nil
}

// naming finds the Rollouts of a workload.
func (h *Handler) naming(ctx context.Context, request *admissionv1.AdmissionRequest, before, after object.Object) ([]*rollouts.Rollout, error) {
	kind := schema.GroupVersionKind(request.Kind)
	ref := rollouts.ObjectRef{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: cmp.Or(request.Name, after.GetName())}
	named, err := h.Rollouts.Naming(request.Namespace, ref)
	if err != nil {
		return nil, err
	}
	row, _ := rowOf(kind, named)
	known, matters := before.GetLabels()[rollouts.LabelWorkloadType] != "", row.Changed(before, after) || row.Rolls(before, after)
	if !known || !matters || row.Held(before) || slices.ContainsFunc(named, planner.HoldsOnTemplateChange) {
		return named, nil
	}
	// Who has seen the Rollout Healthy may be faster than our watch.
	return h.Rollouts.Stored(ctx, request.Namespace, ref)
}

// objectsOf are the stored object and the one that is asked for. The first is an empty
// one where there is none.
func objectsOf(row workload.Row, request *admissionv1.AdmissionRequest) (before, after object.Object, err error) {
	before = row.New()
	if request.Operation == admissionv1.Update {
		if before, err = decode(row, request.OldObject); err != nil {
			return nil, nil, err
		}
	}
	after, err = decode(row, request.Object)
	return before, after, err
}

// factsOf are what is judged.
func factsOf(row workload.Row, request *admissionv1.AdmissionRequest, named []*rollouts.Rollout, before, update object.Object) planner.Admission {
	facts := planner.Admission{Held: row.Held(before), Rollouts: named}
	if request.Operation != admissionv1.Update {
		return facts
	}
	// The mark may be gone; the store knows of the release all the same.
	facts.Held = facts.Held || slices.ContainsFunc(named, func(r *rollouts.Rollout) bool {
		return planner.HoldsWorkload(r) && r.Status.WorkloadUID == before.GetUID()
	})
	facts.Changed, facts.Unholdable = row.Changed(before, update), row.Refused(before, update, facts.Held)
	if facts.Held && facts.Unholdable == "" {
		facts.Unholdable = row.Wrong(before, update)
	}
	return facts
}

// judge changes the update as planner.Admit says. What is made now was no release
// before.
func (h *Handler) judge(ctx context.Context, request *admissionv1.AdmissionRequest, before, update object.Object) (answer, error) {
	named, err := h.naming(ctx, request, before, update)
	if err != nil {
		return answer{}, err
	}
	row, _ := rowOf(schema.GroupVersionKind(request.Kind), named) // in the style of a Rollout
	judged := planner.Admit(factsOf(row, request, named, before, update))
	switch {
	case judged.Refuse != "":
		return answer{refusal: judged.Refuse, verdict: verdictRefused}, nil
	case judged.Keep:
		row.Keep(before, update)
		return answer{verdict: verdictKept}, nil
	case judged.Hold:
		row.HoldUpdate(before, update, judged.By)
		return answer{verdict: verdictHeld}, nil
	case judged.Records && request.Operation == admissionv1.Create:
		made := row.Made(update)
		workload.KeepRecords(before, made)
		return answer{verdict: verdictPassed, admitted: made}, nil
	case judged.Records:
		workload.KeepRecords(before, update)
	}
	return answer{verdict: verdictPassed}, nil
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
	if err := bounded(raw.Raw); err != nil {
		return nil, fmt.Errorf("not decoding a %s: %w", row.GVK.Kind, err)
	}
	return row.FromJSON(raw.Raw)
}

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

// decision is the outcome of an admission request: a patch, or the reason for a refusal.
type decision struct {
	patch   []byte
	refusal string
	verdict verdict
	// warnings are shown to the user of an allowed request.
	warnings []string
	// admitted replaces the object of the request in the patch's computation; nil if judge changed the
	// object in place.
	admitted object.Object
}

// mustJudge reports whether a request can affect a rollout. Among the subresources, "scale" cannot: it
// changes only the size. "status" can, because a status update may also write metadata.
func (h *Handler) mustJudge(request *admissionv1.AdmissionRequest) bool {
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

// admit decides about one admission request.
func (h *Handler) admit(ctx context.Context, request *admissionv1.AdmissionRequest) (decision, error) {
	kind := schema.GroupVersionKind(request.Kind)
	row, ok := findRow(kind, nil)
	if !ok || !h.mustJudge(request) {
		return decision{verdict: verdictPassed}, nil
	}
	undecided := decision{verdict: verdictUndecided}
	before, after, err := decodeObjects(row, request)
	if err != nil {
		return undecided, err
	}
	if request.Operation == admissionv1.Update {
		if why := workload.MetadataLimitReason(before, after); why != "" {
			return decision{refusal: why, verdict: verdictRefused}, nil
		}
	}
	admitted, decided := after.DeepCopyObject().(object.Object), decision{verdict: verdictPassed}
	if request.SubResource == statusResource {
		// Status updates never need to write Weir's metadata, so the stored values win for every user.
		workload.KeepRecords(before, admitted)
	} else if decided, err = h.judge(ctx, request, before, admitted); err != nil {
		return undecided, err
	}
	if decided.admitted != nil {
		admitted = decided.admitted
	}
	if decided.patch, err = patch(request.Object.Raw, after, admitted); err != nil {
		return undecided, err
	}
	return decided, nil
}

// findRollouts returns the Rollouts that reference the workload.
func (h *Handler) findRollouts(ctx context.Context, request *admissionv1.AdmissionRequest, before, after object.Object) ([]*rollouts.Rollout, error) {
	kind := schema.GroupVersionKind(request.Kind)
	ref := rollouts.ObjectRef{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: cmp.Or(request.Name, after.GetName())}
	named, err := h.Rollouts.ListCached(request.Namespace, ref)
	if err != nil {
		return nil, err
	}
	row, _ := findRow(kind, named)
	known, matters := before.GetLabels()[rollouts.LabelWorkloadType] != "", row.StartsRelease(before, after) || row.ReplacesPods(before, after)
	if !known || !matters || row.Held(before) || slices.ContainsFunc(named, planner.HoldsOnTemplateChange) {
		return named, nil
	}
	// The client may have seen the Rollout become Healthy before our watch did, so read the Rollouts from
	// etcd.
	return h.Rollouts.ListLive(ctx, request.Namespace, ref)
}

// decodeObjects returns the stored object and the requested object. For a create, the stored object is
// empty.
func decodeObjects(row workload.Row, request *admissionv1.AdmissionRequest) (before, after object.Object, err error) {
	before = row.New()
	if request.Operation == admissionv1.Update {
		if before, err = decode(row, request.OldObject); err != nil {
			return nil, nil, err
		}
	}
	after, err = decode(row, request.Object)
	return before, after, err
}

// admissionFacts collects the facts that planner.Admit judges.
func admissionFacts(row workload.Row, request *admissionv1.AdmissionRequest, named []*rollouts.Rollout, before, update object.Object) planner.Admission {
	facts := planner.Admission{Held: row.Held(before), Rollouts: named}
	if request.Operation != admissionv1.Update {
		return facts
	}
	// A client may have removed the hold annotation. The Rollout's status still shows that a release
	// controls the workload.
	facts.Held = facts.Held || slices.ContainsFunc(named, func(r *rollouts.Rollout) bool {
		return planner.HoldsWorkload(r) && r.Status.WorkloadUID == before.GetUID()
	})
	facts.Changed, facts.UnholdableReason = row.StartsRelease(before, update), row.RefusalReason(before, update, facts.Held)
	if facts.Held && facts.UnholdableReason == "" {
		facts.UnholdableReason = row.ValidateOwnerSettings(before, update)
	}
	return facts
}

// judge applies the decision of planner.Admit to the update. A created workload cannot be part of a release
// yet.
func (h *Handler) judge(ctx context.Context, request *admissionv1.AdmissionRequest, before, update object.Object) (decision, error) {
	named, err := h.findRollouts(ctx, request, before, update)
	if err != nil {
		return decision{}, err
	}
	row, _ := findRow(schema.GroupVersionKind(request.Kind), named)
	judged := planner.Admit(admissionFacts(row, request, named, before, update))
	switch {
	case judged.Refusal != "":
		return decision{refusal: judged.Refusal, verdict: verdictRefused}, nil
	case judged.KeepHold:
		warnings := resumeWarnings(request, named, before, update)
		row.PreserveHold(before, update)
		return decision{verdict: verdictKept, warnings: warnings}, nil
	case judged.Hold:
		row.HoldUpdate(before, update, judged.RolloutName)
		return decision{verdict: verdictHeld}, nil
	case judged.KeepRecords && request.Operation == admissionv1.Create:
		made := row.RestoreCreated(update)
		workload.KeepRecords(before, made)
		return decision{verdict: verdictPassed, admitted: made}, nil
	case judged.KeepRecords:
		workload.KeepRecords(before, update)
	}
	return decision{verdict: verdictPassed}, nil
}

// findRow returns the adapter of the kind. If Rollouts reference the workload, their strategy selects the
// adapter's style.
func findRow(kind schema.GroupVersionKind, named []*rollouts.Rollout) (workload.Row, bool) {
	for _, r := range named {
		style := rollouts.StyleFor(&r.Spec.Strategy, r.Spec.WorkloadRef)
		if row, ok := workload.Find(kind.GroupVersion().String(), kind.Kind, style); ok {
			return row, true
		}
	}
	return workload.Find(kind.GroupVersion().String(), kind.Kind, rollouts.StylePartition)
}

func decode(row workload.Row, raw runtime.RawExtension) (object.Object, error) {
	if err := checkSize(raw.Raw); err != nil {
		return nil, fmt.Errorf("not decoding a %s: %w", row.GVK.Kind, err)
	}
	return row.FromJSON(raw.Raw)
}

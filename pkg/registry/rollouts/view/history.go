// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/why"
)

// maxReleases limits the releases in a response, and maxBytes the size of their changes and decisions. The
// newest release is always included.
const (
	maxReleases = 100
	maxBytes    = 1 << 20
)

// listHistory returns the releases of a Rollout. If the options select one release, the response includes the
// patch that restores it.
func (w explainer) listHistory(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	r, err := w.GetRollout(ctx, name)
	if err != nil {
		return nil, err
	}
	all, err := w.listReleases(ctx, r)
	if err != nil {
		return nil, err
	}
	out := &rollouts.RolloutReleases{ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, UID: r.UID, ResourceVersion: r.ResourceVersion}}
	asked := int64(0)
	if o, ok := options.(*rollouts.HistoryOptions); ok {
		asked = o.Release
	}
	if asked == 0 {
		out.Releases = limitReleases(r, all)
		return out, nil
	}
	i := slices.IndexFunc(all, func(f filedRelease) bool { return f.record.Number == asked })
	if i < 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("there is no release %d of rollout %s on record", asked, r.Name))
	}
	out.Releases = limitReleases(r, all[i:i+1])
	out.Releases[0].Restore = restorePatch(why.ReleasedTemplate(all[i].history), all[0].history)
	out.Releases[0].RestoreStable = restorePatch(why.StableTemplate(all[i].history), all[0].history)
	return out, nil
}

// limitReleases returns as many releases as a response may have.
func limitReleases(r *rollouts.Rollout, all []filedRelease) []rollouts.PastRelease {
	var out []rollouts.PastRelease
	size := 0
	for _, f := range all[:min(len(all), maxReleases)] {
		past := toPastRelease(r, f)
		for _, c := range past.Changes {
			size += len(c.Path) + len(c.From) + len(c.To)
		}
		for i := range past.Decisions {
			size += past.Decisions[i].Size()
		}
		if size > maxBytes && len(out) > 0 {
			break
		}
		out = append(out, past)
	}
	return out
}

// filedRelease is a release and its RolloutHistory, if there is one.
type filedRelease struct {
	record  rollouts.ReleaseRecord
	history *rollouts.RolloutHistory
}

// listReleases returns the releases of a Rollout, newest first.
func (w explainer) listReleases(ctx context.Context, r *rollouts.Rollout) ([]filedRelease, error) {
	selector := labels.SelectorFromSet(labels.Set{rollouts.LabelRolloutName: planner.HistoryLabel(r.Name)})
	list, err := w.Histories.List(ctx, &metainternalversion.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	var all []filedRelease
	for i := range list.(*rollouts.RolloutHistoryList).Items {
		h := &list.(*rollouts.RolloutHistoryList).Items[i]
		// Other users may write the labels, so check the name too.
		if n, err := strconv.ParseInt(h.Labels[rollouts.LabelReleaseNumber], 10, 64); err == nil && h.Name == planner.HistoryName(r, n) {
			all = append(all, filedRelease{record: recordFromHistory(n, h), history: h})
		}
	}
	for _, record := range r.Status.Releases {
		i := slices.IndexFunc(all, func(f filedRelease) bool { return f.record.Number == record.Number })
		switch {
		case i < 0:
			all = append(all, filedRelease{record: record})
		case len(record.Steps) > 0 || record.EndTime == nil:
			all[i].record = record // the RolloutHistory may be older than the status
		}
	}
	slices.SortFunc(all, func(a, b filedRelease) int { return cmp.Compare(b.record.Number, a.record.Number) })
	return all, nil
}

// recordFromHistory returns the record of a release from its RolloutHistory.
func recordFromHistory(number int64, h *rollouts.RolloutHistory) rollouts.ReleaseRecord {
	s := h.Status
	r := rollouts.ReleaseRecord{
		Number: number, RolloutID: h.Labels[rollouts.LabelRolloutID], StableRevision: s.StableRevision, UpdateRevision: s.UpdateRevision,
		StableTemplate: s.StableTemplate, UpdateTemplate: s.UpdateTemplate,
		EndTime: s.EndTime, Outcome: s.Outcome, StartTime: h.CreationTimestamp,
	}
	if s.StartTime != nil {
		r.StartTime = *s.StartTime
	}
	for _, step := range s.CanarySteps {
		r.Steps = append(r.Steps, rollouts.StepRecord{Step: step.CanaryStepIndex, StepTimes: step.StepTimes})
	}
	return r
}

// toPastRelease describes the course of a release and what it changed.
func toPastRelease(r *rollouts.Rollout, f filedRelease) rollouts.PastRelease {
	rec := f.record
	past := rollouts.PastRelease{
		ReleaseRef: rollouts.ReleaseRef{Number: rec.Number, Stable: rec.StableRevision, Revision: rec.UpdateRevision},
		RolloutID:  rec.RolloutID, StartTime: &rec.StartTime, EndTime: rec.EndTime, Outcome: rec.Outcome, Steps: rec.Steps,
	}
	if f.history != nil {
		changes, more := why.TemplateChanges(f.history)
		past.StableOnRecord = why.StableTemplate(f.history) != nil
		past.Changes, past.MoreChanges, past.Images = changes, int32(more), why.ImageChanges(changes) //nolint:gosec // of one object
		past.Decisions, past.Source = f.history.Status.Decisions, f.history.Spec.Source.Cleaned()
	}
	if len(past.Decisions) == 0 && rec.FirstDecision > 0 {
		past.Decisions = planner.HistoryStatus(r.Status, rec).Decisions
	}
	return past
}

// restorePatch returns the merge patch that sets the template again and removes the fields that
// only the newest template has. It is empty if a template is not on record.
func restorePatch(to map[string]any, newest *rollouts.RolloutHistory) runtime.RawExtension {
	if to == nil {
		return runtime.RawExtension{}
	}
	addRemovals(to, why.ReleasedTemplate(newest))
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": to}})
	if err != nil {
		return runtime.RawExtension{}
	}
	return runtime.RawExtension{Raw: patch}
}

// addRemovals adds to a merge patch the removal of fields that only the other object has.
func addRemovals(patch, other map[string]any) {
	for key, value := range other {
		mine, has := patch[key]
		if !has {
			patch[key] = nil
			continue
		}
		inner, ok := mine.(map[string]any)
		if theirs, both := value.(map[string]any); ok && both {
			addRemovals(inner, theirs)
		}
	}
}

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

// maxReleases bounds the releases of an answer, and maxBytes what their changes and decisions
// take. The newest is always there.
const (
	maxReleases = 100
	maxBytes    = 1 << 20
)

// history is its answer. The release that is asked for comes with what restores it.
func (w whys) history(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	r, err := w.Rollout(ctx, name)
	if err != nil {
		return nil, err
	}
	all, err := w.filed(ctx, r)
	if err != nil {
		return nil, err
	}
	out := &rollouts.RolloutReleases{ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, UID: r.UID, ResourceVersion: r.ResourceVersion}}
	asked := int64(0)
	if o, ok := options.(*rollouts.HistoryOptions); ok {
		asked = o.Release
	}
	if asked == 0 {
		out.Releases = releases(r, all)
		return out, nil
	}
	i := slices.IndexFunc(all, func(f filing) bool { return f.record.Number == asked })
	if i < 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("release: there is no release %d of rollout %s on record", asked, r.Name))
	}
	out.Releases = releases(r, all[i:i+1])
	out.Releases[0].Restore = restore(all[i].history, all[0].history)
	return out, nil
}

// releases are as many as an answer may have.
func releases(r *rollouts.Rollout, all []filing) []rollouts.PastRelease {
	var out []rollouts.PastRelease
	size := 0
	for _, f := range all[:min(len(all), maxReleases)] {
		past := release(r, f)
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

// filing is a release and what is on file of it, if anything is.
type filing struct {
	record  rollouts.ReleaseRecord
	history *rollouts.RolloutHistory
}

// filed are the releases of a Rollout, newest first.
func (w whys) filed(ctx context.Context, r *rollouts.Rollout) ([]filing, error) {
	selector := labels.SelectorFromSet(labels.Set{rollouts.LabelRolloutName: planner.HistoryLabel(r.Name)})
	list, err := w.Histories.List(ctx, &metainternalversion.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	var all []filing
	for i := range list.(*rollouts.RolloutHistoryList).Items {
		h := &list.(*rollouts.RolloutHistoryList).Items[i]
		// Others may write the labels: the name says whose it is.
		if n, err := strconv.ParseInt(h.Labels[rollouts.LabelReleaseNumber], 10, 64); err == nil && h.Name == planner.HistoryName(r, n) {
			all = append(all, filing{record: recorded(n, h), history: h})
		}
	}
	for _, record := range r.Status.Releases {
		i := slices.IndexFunc(all, func(f filing) bool { return f.record.Number == record.Number })
		switch {
		case i < 0:
			all = append(all, filing{record: record})
		case len(record.Steps) > 0 || record.EndTime == nil:
			all[i].record = record // what is on file is older
		}
	}
	slices.SortFunc(all, func(a, b filing) int { return cmp.Compare(b.record.Number, a.record.Number) })
	return all, nil
}

// recorded is the record of a release as it is on file.
func recorded(number int64, h *rollouts.RolloutHistory) rollouts.ReleaseRecord {
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

// release says how a release went, and what it changed.
func release(r *rollouts.Rollout, f filing) rollouts.PastRelease {
	rec := f.record
	past := rollouts.PastRelease{
		ReleaseRef: rollouts.ReleaseRef{Number: rec.Number, Stable: rec.StableRevision, Revision: rec.UpdateRevision},
		RolloutID:  rec.RolloutID, StartTime: &rec.StartTime, EndTime: rec.EndTime, Outcome: rec.Outcome, Steps: rec.Steps,
	}
	if f.history != nil {
		changes, more := why.TemplateChanges(f.history)
		past.Changes, past.MoreChanges, past.Images = changes, int32(more), why.ImageChanges(changes) //nolint:gosec // of one object
		past.Decisions = f.history.Status.Decisions
	}
	if len(past.Decisions) == 0 && rec.FirstDecision > 0 {
		past.Decisions = planner.HistoryStatus(r.Status, rec).Decisions
	}
	return past
}

// restore is the merge patch that sets the template of a release again, and takes off what
// the newest one has besides; empty where they are not on file.
func restore(h, newest *rollouts.RolloutHistory) runtime.RawExtension {
	to := why.ReleasedTemplate(h)
	if to == nil {
		return runtime.RawExtension{}
	}
	remove(to, why.ReleasedTemplate(newest))
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": to}})
	if err != nil {
		return runtime.RawExtension{}
	}
	return runtime.RawExtension{Raw: patch}
}

// remove takes off, in a merge patch, the fields that only another object has.
func remove(patch, other map[string]any) {
	for key, value := range other {
		mine, has := patch[key]
		if !has {
			patch[key] = nil
			continue
		}
		inner, ok := mine.(map[string]any)
		if theirs, both := value.(map[string]any); ok && both {
			remove(inner, theirs)
		}
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// maxObject bounds what others write into an object, in bytes, so that there is
// always room for what Weir writes: storage takes three times as much.
const maxObject = 512 << 10

// Weighed is what of an object counts.
type Weighed struct {
	Meta         *metav1.ObjectMeta
	Spec, Status any
}

// WeighRollout leaves out the decisions, whose room is their own.
func WeighRollout(r *rollouts.Rollout) *Weighed {
	status := r.Status
	status.Decisions = nil
	return &Weighed{Meta: &r.ObjectMeta, Spec: r.Spec, Status: status}
}

// ValidateSize judges what a writer makes of the stored object, which is nil if
// there is none. One that was stored before there was a limit can be made
// smaller, and can lose its finalizers.
func ValidateSize(w, old *Weighed) field.ErrorList {
	now := w.weigh()
	if now.total <= maxObject || old != nil && (now.shrinks(old.weigh()) || len(w.Meta.Finalizers) < len(old.Meta.Finalizers)) {
		return nil
	}
	return field.ErrorList{{Type: field.ErrorTypeTooLong, Field: now.largest.String(), Detail: fmt.Sprintf(
		"the object may take %d KiB and would take %d: make this, its largest part, smaller", maxObject>>10, (now.total+1023)>>10)}}
}

// mostErrors bounds how many errors are told at once. What the message of all takes
// to write grows with the square of their number.
const mostErrors = 20

// Judge is the answer to a write. Nothing else is looked at in an object that is too
// large, and what takes too many words is cut.
func Judge(size field.ErrorList, rest func() field.ErrorList) field.ErrorList {
	if len(size) > 0 {
		return size
	}
	errs := rest()
	if more := len(errs) - mostErrors; more > 0 {
		last := *errs[mostErrors]
		last.Detail += fmt.Sprintf(" (and %d more errors)", more-1)
		errs = append(errs[:mostErrors:mostErrors], &last)
	}
	return errs
}

// weight is the size of an object, how much of it says who wrote what, and the
// part that takes most.
type weight struct {
	total, managed int
	largest        *field.Path
}

// shrinks reports whether nothing was added. Whoever takes something away may be
// new among those on record.
func (w weight) shrinks(before weight) bool {
	return w.total <= before.total || w.total-w.managed < before.total-before.managed && w.managed <= maxObject/2
}

func (w *Weighed) weigh() weight {
	meta := *w.Meta
	meta.Annotations, meta.ManagedFields = nil, nil
	path := field.NewPath("metadata")
	sum := weight{managed: sizeOf(w.Meta.ManagedFields)}
	most := -1
	for _, part := range []struct {
		path *field.Path
		size int
	}{
		{path, sizeOf(meta)}, {path.Child("annotations"), sizeOf(w.Meta.Annotations)}, {path.Child("managedFields"), sum.managed},
		{field.NewPath("spec"), sizeOf(w.Spec)}, {field.NewPath("status"), sizeOf(w.Status)},
	} {
		sum.total += part.size
		if part.size > most {
			most, sum.largest = part.size, part.path
		}
	}
	return sum
}

// sizeOf is about what the value takes in storage.
func sizeOf(value any) int {
	encoded, err := json.Marshal(value)
	if err != nil {
		return 0 // what was decoded can be encoded
	}
	return len(encoded)
}

// mayType reports whether others may say something under a type. One that differs from
// one of ours only in case, or in letters that look alike, would read like it.
func mayType(t rollouts.ConditionType) bool {
	if slices.Contains(rollouts.ConditionTypes, t) {
		return true // whether it may be said is settled elsewhere
	}
	return len(utilvalidation.IsQualifiedName(string(t))) == 0 && !rollouts.IsRecord(string(t)) &&
		!slices.ContainsFunc(rollouts.ConditionTypes, func(ours rollouts.ConditionType) bool { return strings.EqualFold(string(ours), string(t)) })
}

// validateConditions judges the conditions that others have written. Those that
// stay as they are stay accepted.
func validateConditions(all, old []rollouts.Condition, path *field.Path) field.ErrorList {
	stored, before := map[rollouts.ConditionType]*rollouts.Condition{}, 0
	for i := range old {
		stored[old[i].Type] = &old[i]
		if rollouts.Foreign(old, i) {
			before++
		}
	}
	var errs field.ErrorList
	count := 0
	for i := range all {
		if rollouts.Foreign(all, i) {
			count++
			errs = append(errs, validateCondition(&all[i], stored[all[i].Type], path)...)
		}
	}
	if count > max(rollouts.MaxForeign, before) {
		errs = append(errs, field.TooMany(path, count, rollouts.MaxForeign))
	}
	return errs
}

// validateCondition judges a condition by the stored one of its type, which may be nil.
func validateCondition(c, old *rollouts.Condition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	name, limit := rollouts.Clean(string(c.Type), rollouts.MaxRequestID), rollouts.MaxCondition
	path = path.Key(name)
	if old != nil {
		limit = max(limit, old.Size())
	} else if !mayType(c.Type) {
		errs = append(errs, field.Invalid(path.Child("type"), name,
			"use a type of your own that reads like none of Weir's: letters, digits, '-', '_' and '.', such as Gate or example.com/Gate"))
	}
	same := old != nil && old.Reason == c.Reason
	if c.Type == rollouts.ConditionStalled && !same && !rollouts.MayStall(c.Reason) {
		errs = append(errs, field.Invalid(path.Child("reason"), rollouts.Clean(c.Reason, rollouts.MaxRequestID),
			"use a reason of your own that reads like none of Weir's: one word of letters and digits that begins with a capital, such as GateClosed"))
	}
	if c.Size() > limit {
		errs = append(errs, field.TooLong(path, "", rollouts.MaxCondition))
	}
	return errs
}

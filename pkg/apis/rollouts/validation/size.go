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

// maxObject is how many bytes others may write into an object. Storage accepts three
// times as much, so that there is always room for what Weir writes.
const maxObject = 512 << 10

// maxKeys is how many annotations, and how many labels, others may write into an object. A key
// without a value takes several times as much memory in each cache as in storage.
const maxKeys = 512

// Weighed has the parts of an object that count.
type Weighed struct {
	Meta         *metav1.ObjectMeta
	Spec, Status any
}

// WeighRollout leaves out the decisions, which have a limit of their own.
func WeighRollout(r *rollouts.Rollout) *Weighed {
	status := r.Status
	status.Decisions = nil
	return &Weighed{Meta: &r.ObjectMeta, Spec: r.Spec, Status: status}
}

// ValidateSize validates the size of an object. The stored object is nil for a new
// one. A stored object above the limit can become smaller, and can lose finalizers.
func ValidateSize(w, old *Weighed) field.ErrorList {
	if errs := w.validateKeys(old); len(errs) > 0 {
		return errs
	}
	now := w.weigh()
	if now.total <= maxObject || old != nil && (now.shrinks(old.weigh()) || len(w.Meta.Finalizers) < len(old.Meta.Finalizers)) {
		return nil
	}
	return field.ErrorList{{Type: field.ErrorTypeTooLong, Field: now.largest.String(), Detail: fmt.Sprintf(
		"an object may have %d KiB, and this one would have %d KiB; make this field smaller, because it is the largest", maxObject>>10, (now.total+1023)>>10)}}
}

// validateKeys validates the number of annotations and labels. A stored object above the limit can
// keep them.
func (w *Weighed) validateKeys(old *Weighed) (errs field.ErrorList) {
	if old == nil {
		old = &Weighed{Meta: &metav1.ObjectMeta{}}
	}
	path := field.NewPath("metadata")
	for _, keys := range []struct {
		path     *field.Path
		now, was map[string]string
	}{
		{path.Child("annotations"), w.Meta.Annotations, old.Meta.Annotations},
		{path.Child("labels"), w.Meta.Labels, old.Meta.Labels},
	} {
		if n := countKeys(keys.now); n > max(maxKeys, countKeys(keys.was)) {
			errs = append(errs, field.TooMany(keys.path, n, maxKeys))
		}
	}
	return errs
}

// countKeys leaves out the annotation that the server adds.
func countKeys(keys map[string]string) int {
	if _, ok := keys[rollouts.AnnotationHash]; ok {
		return len(keys) - 1
	}
	return len(keys)
}

// mostErrors is how many errors an answer lists. The time to write a message of all
// errors grows with the square of their number.
const mostErrors = 20

// Judge returns the errors of a write. It checks nothing else in an object that is too
// large, and cuts a long list of errors.
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

// weight is the size of an object, that of its managed fields, and its largest part.
type weight struct {
	total, managed int
	largest        *field.Path
}

// shrinks reports whether a write adds nothing. Managed fields may grow, since a new
// writer is added to them, even if it removes something.
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

// sizeOf estimates how many bytes the value takes in storage.
func sizeOf(value any) int {
	encoded, err := json.Marshal(value)
	if err != nil {
		return 0 // cannot happen: a decoded value can be encoded
	}
	return len(encoded)
}

// isAllowedType reports whether others may use the type of a condition. A type that
// differs from one of Weir's only in case is not allowed, since it would read like it.
func isAllowedType(t rollouts.ConditionType) bool {
	if slices.Contains(rollouts.ConditionTypes, t) {
		return true // another rule decides who may write it
	}
	return len(utilvalidation.IsQualifiedName(string(t))) == 0 && !rollouts.IsRecord(string(t)) &&
		!slices.ContainsFunc(rollouts.ConditionTypes, func(ours rollouts.ConditionType) bool { return strings.EqualFold(string(ours), string(t)) })
}

// validateConditions validates the conditions that others have written. Conditions
// that do not change stay accepted.
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

// validateCondition validates a condition. The stored one of its type may be nil.
func validateCondition(c, old *rollouts.Condition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	name, limit := rollouts.Clean(string(c.Type), rollouts.MaxRequestID), rollouts.MaxCondition
	path = path.Key(name)
	if old != nil {
		limit = max(limit, old.Size())
	} else if !isAllowedType(c.Type) {
		errs = append(errs, field.Invalid(path.Child("type"), name,
			"this condition type is reserved by Weir (case-insensitive), or not a qualified name; use another type, such as example.com/Gate"))
	}
	same := old != nil && old.Reason == c.Reason
	if c.Type == rollouts.ConditionStalled && !same && !rollouts.MayStall(c.Reason) {
		errs = append(errs, field.Invalid(path.Child("reason"), rollouts.Clean(c.Reason, rollouts.MaxRequestID),
			"this reason is reserved by Weir (case-insensitive), or not one word of letters and digits with a capital first letter; use another reason, such as GateClosed"))
	}
	if c.Size() > limit {
		errs = append(errs, field.TooLong(path, "", rollouts.MaxCondition))
	}
	return errs
}

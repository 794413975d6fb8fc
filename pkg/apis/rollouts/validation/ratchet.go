// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// sinceBefore drops the errors that the stored object has as well, about the
// same field with the same value. An object that was stored before a rule
// existed can so be changed in its other parts; whoever touches the part that
// offends must mend it.
func sinceBefore(errs, before field.ErrorList) field.ErrorList {
	var kept field.ErrorList
	for _, err := range errs {
		if !had(before, err) {
			kept = append(kept, err)
		}
	}
	return kept
}

func had(before field.ErrorList, err *field.Error) bool {
	for _, b := range before {
		if equality.Semantic.DeepEqual(*b, *err) {
			return true
		}
	}
	return false
}

// tooLong counts characters, as a CRD does, and keeps the value, so that one
// that is too long cannot be replaced by another one.
func tooLong(path *field.Path, value string, limit int) *field.Error {
	err := field.TooLongCharacters(path, value, limit)
	err.BadValue = value
	return err
}

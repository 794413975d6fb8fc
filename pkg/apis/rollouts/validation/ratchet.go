// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// newErrors drops the errors that the stored object has too, about the same field
// with the same value. An object that was stored before a rule existed can still be
// changed in other fields; a change of an invalid field must correct it.
func newErrors(errs, before field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		return slices.ContainsFunc(before, func(b *field.Error) bool { return equality.Semantic.DeepEqual(*b, *err) })
	})
}

// tooLong counts characters, as a CRD does. It keeps the value, so that newErrors
// reports a long value that replaces another long one.
func tooLong(path *field.Path, value string, limit int) *field.Error {
	err := field.TooLongCharacters(path, value, limit)
	err.BadValue = value
	return err
}

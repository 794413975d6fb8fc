// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// sinceBefore drops the errors that the stored object has as well, about the
// same field with the same value. An object that was stored before a rule
// existed can so be changed in its other parts; whoever touches the part that
// offends must mend it.
func sinceBefore(errs, before field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		return slices.ContainsFunc(before, func(b *field.Error) bool { return equality.Semantic.DeepEqual(*b, *err) })
	})
}

// tooLong counts characters, as a CRD does, and keeps the value, so that one
// that is too long cannot be replaced by another one.
func tooLong(path *field.Path, value string, limit int) *field.Error {
	err := field.TooLongCharacters(path, value, limit)
	err.BadValue = value
	return err
}

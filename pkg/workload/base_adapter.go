// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/sizes"
)

// baseAdapter is the common part of all kinds whose own controller creates and
// deletes the pods: Weir makes no second workload and sizes no sets, and that
// controller keeps the templates of earlier revisions. Its value is that of the
// workload-type label.
type baseAdapter string

// Held implements Adapter.
func (baseAdapter) Held(obj object.Object) bool { return held(obj) }

// UnsupportedReason implements Adapter.
func (baseAdapter) UnsupportedReason(object.Object) string { return "" }

// Sized implements Adapter.
func (baseAdapter) Sized(object.Object, object.Object, bool) string { return "" }

// Label implements Adapter.
func (n baseAdapter) Label(obj object.Object) []object.Change {
	want := obj.DeepCopyObject().(object.Object)
	label(want, rollouts.LabelWorkloadType, string(n))
	return change(obj, want)
}

// Unlabel implements Adapter.
func (baseAdapter) Unlabel(obj object.Object) []object.Change {
	want := obj.DeepCopyObject().(object.Object)
	want.SetLabels(without(want.GetLabels(), rollouts.LabelWorkloadType))
	return change(obj, want)
}

// Discard implements Adapter.
func (baseAdapter) Discard(object.Object, []object.Object) []object.Change { return nil }

// Scaling implements Adapter.
func (baseAdapter) Scaling(object.Object, []object.Object) (sizes.Scaling, bool) {
	return sizes.Scaling{}, false
}

// Sets implements Adapter.
func (baseAdapter) Sets(object.Object, []object.Object, sizes.Scale) ([]object.Change, error) {
	return nil, nil
}

// Tell implements Adapter: the status says all of it.
func (baseAdapter) Tell(object.Object, []object.Object) []object.Change { return nil }

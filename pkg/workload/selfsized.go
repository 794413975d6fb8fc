// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// selfSized is what all kinds have in common whose pods their own controller makes
// and takes: nothing stands beside the workload, nothing is sized from here, and
// the templates of earlier revisions are kept by that controller. Its value is
// that of the workload-type label.
type selfSized string

// Held implements Adapter.
func (selfSized) Held(obj object.Object) bool { return held(obj) }

// Unfit implements Adapter.
func (selfSized) Unfit(object.Object) string { return "" }

// Sized implements Adapter.
func (selfSized) Sized(object.Object, object.Object, bool) string { return "" }

// Label implements Adapter.
func (n selfSized) Label(obj object.Object) []object.Change {
	want := obj.DeepCopyObject().(object.Object)
	label(want, rollouts.LabelWorkloadType, string(n))
	return change(obj, want)
}

// Unlabel implements Adapter.
func (selfSized) Unlabel(obj object.Object) []object.Change {
	want := obj.DeepCopyObject().(object.Object)
	want.SetLabels(without(want.GetLabels(), rollouts.LabelWorkloadType))
	return change(obj, want)
}

// Discard implements Adapter.
func (selfSized) Discard(object.Object, []object.Object) []object.Change { return nil }

// RemoveStrays implements Adapter.
func (selfSized) RemoveStrays(object.Object, []object.Object) []object.Change { return nil }

// Scaling implements Adapter.
func (selfSized) Scaling(object.Object, []object.Object) (planner.Scaling, bool) {
	return planner.Scaling{}, false
}

// Sets implements Adapter.
func (selfSized) Sets(object.Object, []object.Object, planner.Scale) ([]object.Change, error) {
	return nil, nil
}

// Tell implements Adapter: the status says all of it.
func (selfSized) Tell(object.Object, []object.Object) []object.Change { return nil }

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// getAttrs returns the labels and fields by which lists and watches can select Rollouts.
// rollouts.SelectRollout accepts the same field names.
func getAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	r, ok := obj.(*rollouts.Rollout)
	if !ok {
		return nil, nil, fmt.Errorf("selecting a %T as a rollout", obj)
	}
	set := fields.Set{
		rollouts.FieldWorkloadKind: "",
		rollouts.FieldWorkloadName: "",
		rollouts.FieldPhase:        string(r.Status.Phase),
		rollouts.FieldStepState:    "",
	}
	if ref := r.Spec.WorkloadRef; ref != nil {
		set[rollouts.FieldWorkloadKind], set[rollouts.FieldWorkloadName] = ref.Kind, ref.Name
	}
	if progress := r.Status.Active(); progress != nil {
		set[rollouts.FieldStepState] = string(progress.State)
	}
	return r.Labels, generic.AddObjectMetaFieldsSet(set, &r.ObjectMeta, true), nil
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// checkWorkloadProtected checks the invariant "protected": after a pass that finds a recreated
// workload, the workload is visible to the webhook and to the admission policies, whatever else
// remains to be done.
func (c *invariants) checkWorkloadProtected(o planner.Input) {
	if o.Rollout == nil || o.Workload == nil || o.Workload.Deleted != "" || o.Unsupported != "" || !planner.HoldsOnTemplateChange(o.Rollout) {
		return
	}
	uid := o.Rollout.Status.WorkloadUID
	is := appOf(c.w.store.objects, o.Rollout.Spec.WorkloadRef.Name)
	if uid == "" || uid == o.Workload.UID || is == nil || is.GetUID() != o.Workload.UID {
		return
	}
	if is.GetLabels()[rollouts.LabelWorkloadType] == "" {
		c.violate("protected", "%s was made again, and has no label", is.GetName())
	}
	index := find[*corev1.ConfigMap](c.w.store.objects, kindIndex, rollouts.IndexName)
	if e := cluster.ReadIndexEntry(index, types.NamespacedName{Name: o.Rollout.Name}, o.Rollout.Spec.WorkloadRef); !e.IsCorrect {
		c.violate("protected", "%s was made again, and the index does not name it", is.GetName())
	}
}

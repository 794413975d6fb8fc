// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Each item of a list of custom resources has apiVersion and kind, unlike items of
// built-in kinds, and some clients read them.

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: SchemeGroupVersion.String(), Kind: kind}
}

// Convert_rollouts_RolloutList_To_v1alpha1_RolloutList names the type of each item.
func Convert_rollouts_RolloutList_To_v1alpha1_RolloutList(in *rollouts.RolloutList, out *RolloutList, s conversion.Scope) error {
	err := autoConvert_rollouts_RolloutList_To_v1alpha1_RolloutList(in, out, s)
	for i := range out.Items {
		out.Items[i].TypeMeta = typeMeta("Rollout")
	}
	return err
}

// Convert_rollouts_BatchReleaseList_To_v1alpha1_BatchReleaseList names the type of each item.
func Convert_rollouts_BatchReleaseList_To_v1alpha1_BatchReleaseList(in *rollouts.BatchReleaseList, out *BatchReleaseList, s conversion.Scope) error {
	err := autoConvert_rollouts_BatchReleaseList_To_v1alpha1_BatchReleaseList(in, out, s)
	for i := range out.Items {
		out.Items[i].TypeMeta = typeMeta("BatchRelease")
	}
	return err
}

// Convert_rollouts_TrafficRoutingList_To_v1alpha1_TrafficRoutingList names the type of each item.
func Convert_rollouts_TrafficRoutingList_To_v1alpha1_TrafficRoutingList(in *rollouts.TrafficRoutingList, out *TrafficRoutingList, s conversion.Scope) error {
	err := autoConvert_rollouts_TrafficRoutingList_To_v1alpha1_TrafficRoutingList(in, out, s)
	for i := range out.Items {
		out.Items[i].TypeMeta = typeMeta("TrafficRouting")
	}
	return err
}

// Convert_rollouts_RolloutHistoryList_To_v1alpha1_RolloutHistoryList names the type of each item.
func Convert_rollouts_RolloutHistoryList_To_v1alpha1_RolloutHistoryList(in *rollouts.RolloutHistoryList, out *RolloutHistoryList, s conversion.Scope) error {
	err := autoConvert_rollouts_RolloutHistoryList_To_v1alpha1_RolloutHistoryList(in, out, s)
	for i := range out.Items {
		out.Items[i].TypeMeta = typeMeta("RolloutHistory")
	}
	return err
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

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

// Convert_rollouts_RolloutList_To_v1beta1_RolloutList names the type of each item.
func Convert_rollouts_RolloutList_To_v1beta1_RolloutList(in *rollouts.RolloutList, out *RolloutList, s conversion.Scope) error {
	err := autoConvert_rollouts_RolloutList_To_v1beta1_RolloutList(in, out, s)
	for i := range out.Items {
		out.Items[i].TypeMeta = typeMeta("Rollout")
	}
	return err
}

// Convert_rollouts_BatchReleaseList_To_v1beta1_BatchReleaseList names the type of each item.
func Convert_rollouts_BatchReleaseList_To_v1beta1_BatchReleaseList(in *rollouts.BatchReleaseList, out *BatchReleaseList, s conversion.Scope) error {
	err := autoConvert_rollouts_BatchReleaseList_To_v1beta1_BatchReleaseList(in, out, s)
	for i := range out.Items {
		out.Items[i].TypeMeta = typeMeta("BatchRelease")
	}
	return err
}

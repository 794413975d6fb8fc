// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RolloutTree is the answer of GET …/tree: a Rollout and what belongs to it.
type RolloutTree struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata: that of the Rollout.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Nodes are flat, parents first; the first one is the Rollout.
	// +optional
	// +listType=atomic
	Nodes []Node `json:"nodes,omitzero"`
	// Hidden is what the caller may not see, or what could not be read.
	// +optional
	// +listType=atomic
	Hidden []HiddenKind `json:"hidden,omitzero"`
	// Why is the answer of GET …/why at the same moment.
	// +optional
	Why RolloutWhy `json:"why,omitzero"`
}

// HiddenKind says that nodes of a kind are missing.
type HiddenKind struct {
	// Kind of the nodes.
	Kind string `json:"kind"`
	// Count is how many there are, where the status says it.
	// +optional
	Count *int32 `json:"count,omitempty"`
	// Permission would show them.
	// +optional
	Permission string `json:"permission,omitempty"`
	// Message says why they are missing, where it is not for a permission.
	// +optional
	Message string `json:"message,omitempty"`
}

// Node is one object of a tree, or several pods in the same state.
type Node struct {
	// ID is unique in the tree, and the same in later trees.
	ID string `json:"id"`
	// Parent is the ID of the node above; missing for the first.
	// +optional
	Parent string `json:"parent,omitempty"`
	// APIVersion of the object.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the object.
	Kind string `json:"kind"`
	// Name of the object.
	// +optional
	Name string `json:"name,omitempty"`
	// Role is rollout, batchRelease, workload, revision, pod, pods, service, router, scaler or
	// budget. The set is open.
	Role string `json:"role"`
	// Revision is stable, update or other, where the node belongs to one.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Health is Healthy, Progressing, Waiting, Suspended, Degraded or Missing.
	Health string `json:"health"`
	// Message says why, in one sentence.
	// +optional
	Message string `json:"message,omitempty"`
	// Since is when that began, where it is known.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Images of the containers.
	// +optional
	// +listType=atomic
	Images []string `json:"images,omitzero"`
	// Desired is how many pods there should be.
	// +optional
	Desired *int32 `json:"desired,omitempty"`
	// Pods is how many there are.
	// +optional
	Pods *int32 `json:"pods,omitempty"`
	// Ready is how many of them are ready.
	// +optional
	Ready *int32 `json:"ready,omitempty"`
	// Traffic is the share of the requests, in percent.
	// +optional
	Traffic *int32 `json:"traffic,omitempty"`
	// Batch is the step that created the pods, from 1; 0 where that is not known.
	// +optional
	Batch int32 `json:"batch,omitempty"`
	// Restarts of the containers.
	// +optional
	Restarts int32 `json:"restarts,omitempty"`
	// Node that the pod runs on.
	// +optional
	Node string `json:"node,omitempty"`
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// RolloutTree is the answer of GET …/tree: a Rollout and what belongs to it.
type RolloutTree struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	// Nodes are flat, parents first; the first one is the Rollout.
	Nodes []Node
	// Hidden is what the caller may not see, or what could not be read.
	Hidden []HiddenKind
	// Why is the answer of GET …/why at the same moment.
	Why RolloutWhy
}

// HiddenKind says that nodes of a kind are missing.
type HiddenKind struct {
	// Kind of the nodes.
	Kind string
	// Count is how many there are, where the status says it.
	Count *int32
	// Permission would show them.
	Permission string
	// Message says why they are missing, where it is not for a permission.
	Message string
}

// Node is one object of a tree, or several pods in the same state.
type Node struct {
	// ID is unique in the tree, and the same in later trees.
	ID string
	// Parent is the ID of the node above; missing for the first.
	Parent string
	// APIVersion of the object.
	APIVersion string
	// Kind of the object.
	Kind string
	// Name of the object.
	Name string
	// Role is rollout, batchRelease, workload, revision, pod, pods, service, router, scaler or
	// budget. The set is open.
	Role string
	// Revision is stable, update or other, where the node belongs to one.
	Revision string
	// Health is Healthy, Progressing, Waiting, Suspended, Degraded or Missing.
	Health string
	// Message says why, in one sentence.
	Message string
	// Since is when that began, where it is known.
	Since *metav1.Time
	// Images of the containers.
	Images []string
	// Desired is how many pods there should be.
	Desired *int32
	// Pods is how many there are.
	Pods *int32
	// Ready is how many of them are ready.
	Ready *int32
	// Traffic is the share of the requests, in percent.
	Traffic *int32
	// Batch is the step that created the pods, from 1; 0 where that is not known.
	Batch int32
	// Restarts of the containers.
	Restarts int32
	// Node that the pod runs on.
	Node string
}

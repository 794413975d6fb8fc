// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// +k8s:openapi-gen=true
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/weir-rollouts/weir/pkg/apis/rollouts
// +k8s:defaulter-gen=TypeMeta
// +k8s:openapi-model-package=io.kruise.rollouts.v1alpha1
// +groupName=rollouts.kruise.io

// Package v1alpha1 is the older wire version of the rollouts.kruise.io API,
// served for the clients that still speak it. It answers "how did a Rollout use
// to be spelled", and must not know what anything on the wire leads to.
//
// It cannot say everything: it has no blue-green strategy and matches headers
// only. Preserve keeps what an older client could not see.
//
// Defaults stand as +default beside the fields, so that the published schema and
// the code cannot differ.
package v1alpha1

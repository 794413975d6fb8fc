// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// +k8s:openapi-gen=true
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/weir-rollouts/weir/pkg/apis/rollouts
// +k8s:defaulter-gen=TypeMeta
// +k8s:openapi-model-package=io.kruise.rollouts.v1beta1
// +groupName=rollouts.kruise.io

// Package v1beta1 is the preferred and stored wire version of the
// rollouts.kruise.io API. It answers "how is a Rollout spelled in JSON", with
// the names that OpenKruise clients use, and must not know what anything on
// the wire leads to.
//
// What a manifest says must read back as written, or GitOps tools report a
// difference for ever: booleans are pointers, and omitzero keeps an empty list.
//
// Defaults stand as +default beside the fields, so that the published schema and
// the code cannot differ.
package v1beta1

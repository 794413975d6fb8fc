// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// +k8s:openapi-gen=true
// +k8s:deepcopy-gen=package
// +k8s:openapi-model-package=io.weir-rollouts.v1alpha1
// +groupName=weir-rollouts.io
// +groupGoName=Weir

// Package v1alpha1 is the API of weir-rollouts.io: what Weir has and OpenKruise
// Rollouts has not. It answers "where are metrics, and which checks are shared", and
// must not know what asks for them. A new kind in rollouts.kruise.io could collide with
// one of OpenKruise.
//
// There is one version, so there is no hub: the server keeps these very types in
// memory. A second version brings the hub along.
//
// Defaults are not stored: functions beside the types tell them.
package v1alpha1

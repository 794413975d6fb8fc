// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +groupName=rollouts.kruise.io

// Package rollouts holds the hub types of the rollouts.kruise.io API: the one
// shape that the server, the planner and the controllers speak. It answers
// "what is a Rollout, whichever version a client uses", and must not know any
// wire version.
//
// The hub has one Release type for both strategies and one Progress type for both
// sub-statuses, and the style that v1alpha1 keeps in an annotation is a field. A test
// with random objects proves that conversions lose nothing.
package rollouts

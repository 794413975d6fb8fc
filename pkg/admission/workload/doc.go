// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload serves the admission webhook for workloads. The webhook admits an update unchanged, or
// holds it for a rollout, or refuses it. The package decodes the objects, collects facts with the kind's
// adapter in pkg/workload, gets the decision from planner.Admit, and answers with a patch. It decides
// nothing itself and writes nothing.
package workload

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload answers kube-apiserver's question about an update of a
// workload: may it go as it is, or must it be held? It decodes, asks the kind's
// row in pkg/workload for facts and planner.Admit for the verdict, and answers
// with a patch. It must not decide anything itself, and it writes nothing.
package workload

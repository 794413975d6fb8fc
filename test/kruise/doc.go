// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package kruise simulates the controllers of OpenKruise, as far as they matter for a release:
// revisions, partitions, surge, in-place updates and status counters. It is used in test clusters
// with a real kube-apiserver and with pods that kwok simulates. It follows the documentation and
// the behaviour of OpenKruise, and must not depend on Weir.
package kruise

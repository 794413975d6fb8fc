// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package kruise answers what Kruise would do with its workloads, as far as a
// release sees it: revisions, partitions, surge, updates in place, counters. It
// stands in for Kruise in test clusters, which have a real kube-apiserver and
// pods that kwok plays. It was written from what Kruise documents and does, and
// must not know that Weir exists.
package kruise

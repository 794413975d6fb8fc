// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// What any Kubernetes API answers with.

export interface Metadata {
  name?: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  continue?: string;
  remainingItemCount?: number;
}

export interface Table {
  metadata?: Metadata;
  columnDefinitions?: { name: string; type: string; description?: string; priority?: number }[];
  rows?: Row[];
}

export interface Row {
  cells: (string | number | boolean | null)[];
  object: { metadata: Metadata };
}

export interface Status {
  kind: 'Status';
  message?: string;
  reason?: string;
  code?: number;
}

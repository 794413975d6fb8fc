// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package artifacts answers: which objects install Weir?
//
// It only carries the manifests, so that programs of this repository apply the
// same files as a user does. It must not know how they are applied.
package artifacts

import "embed"

// Files has the directories that kubectl apply -k takes: small, ha, and others, and
// what they are made of.
//
//go:embed apart base cert-manager dashboard dashboard-impersonate etcd external external-etcd external-etcd-apart ha ha-apart host-network host-network-replicas
//go:embed monitoring no-views one-process policies replicas small small-apart two-ports volume webhook-only
var Files embed.FS

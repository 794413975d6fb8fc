#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds into bin/argo the controller of Argo Rollouts, which make bench PEER=argo
# compares Weir with, and puts its manifest with the CRDs beside it. Both come from a
# nested module, so that the product's go.mod stays clean; nothing of theirs is kept
# in this repository.
set -euo pipefail

# shellcheck source=hack/output.sh
source "$(dirname "${BASH_SOURCE[0]}")/output.sh" argo "$@"

cd "$root/hack/argo"
argo=github.com/argoproj/argo-rollouts
version=$(go list -m -f '{{.Version}}' $argo)
# Go leaves the file alone when it is what would be built.
../build.sh "$out/rollouts-controller" "-X $argo/utils/version.version=${version#v}" "$argo/cmd/rollouts-controller"
install -m 644 "$(go list -m -f '{{.Dir}}' $argo)/manifests/install.yaml" "$out/install.yaml"

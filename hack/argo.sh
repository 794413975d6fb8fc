#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the controller of Argo Rollouts into bin/argo, for make bench PEER=argo, and copies its
# manifest with the CRDs there. Both come from a nested module, so that they do not become
# dependencies of Weir. This repository contains no code of Argo Rollouts.
set -euo pipefail

# shellcheck source=hack/output.sh
source "$(dirname "${BASH_SOURCE[0]}")/output.sh" argo "$@"

cd "$root/hack/argo"
argo=github.com/argoproj/argo-rollouts
version=$(go list -m -f '{{.Version}}' $argo)
# Go does not write the file again if it is up to date.
../build.sh "$out/rollouts-controller" "-X $argo/utils/version.version=${version#v}" "$argo/cmd/rollouts-controller"
install -m 644 "$(go list -m -f '{{.Dir}}' $argo)/manifests/install.yaml" "$out/install.yaml"

#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds a program with the cluster cache of Argo CD into bin/argocdcache, for the end-to-end test of Argo CD.
# It comes from a nested module, so that gitops-engine and its older modules of Kubernetes do not become dependencies
# of Weir.
set -euo pipefail

# shellcheck source=hack/output.sh
source "$(dirname "${BASH_SOURCE[0]}")/output.sh" argocdcache "$@"

cd "$root/hack/argocdcache"
../build.sh "$out/argocdcache" '' .

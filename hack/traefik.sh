#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds into bin/traefik the proxy of the data plane test, and puts the CRDs of
# the Gateway API beside it in the version that this proxy was made for. Both come
# from a nested module, so that the product's go.mod stays clean.
set -euo pipefail

# shellcheck source=hack/output.sh
source "$(dirname "${BASH_SOURCE[0]}")/output.sh" traefik "$@"

cd "$root/hack/traefik"
# Go leaves the file alone when it is what would be built.
../build.sh "$out/traefik" '' github.com/traefik/traefik/v3/cmd/traefik
crds=$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/standard
rm -rf "$out/crds"
cp -r "$crds" "$out/crds"
chmod -R u+w "$out/crds"

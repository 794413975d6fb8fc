#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the proxy of the data plane test into bin/traefik, and copies the CRDs of the Gateway API
# there, in the version that this proxy supports. Both come from a nested module, so that they do
# not become dependencies of Weir.
set -euo pipefail

# shellcheck source=hack/output.sh
source "$(dirname "${BASH_SOURCE[0]}")/output.sh" traefik "$@"

cd "$root/hack/traefik"
# Go does not write the file again if it is up to date.
../build.sh "$out/traefik" '' github.com/traefik/traefik/v3/cmd/traefik
crds=$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/standard
rm -rf "$out/crds"
cp -r "$crds" "$out/crds"
chmod -R u+w "$out/crds"

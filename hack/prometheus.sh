#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the Prometheus that the tests of metrics query into bin/prometheus. It has no service
# discovery of clouds, because its targets are in a file. It comes from a nested module, so that it
# does not become a dependency of Weir.
set -euo pipefail

# shellcheck source=hack/output.sh
source "$(dirname "${BASH_SOURCE[0]}")/output.sh" prometheus "$@"

export GOFLAGS="$GOFLAGS -tags=remove_all_sd"
cd "$root/hack/prometheus"
# Go does not write the file again if it is up to date.
../build.sh "$out/prometheus" '' github.com/prometheus/prometheus/cmd/prometheus

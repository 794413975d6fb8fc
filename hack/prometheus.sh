#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds into bin/prometheus the Prometheus that the tests of metrics ask, without the
# discovery of clouds: its targets are in a file. It comes from a nested module, so that
# the product's go.mod stays clean.
set -euo pipefail

# shellcheck source=hack/output.sh
source "$(dirname "${BASH_SOURCE[0]}")/output.sh" prometheus "$@"

export GOFLAGS="$GOFLAGS -tags=remove_all_sd"
cd "$root/hack/prometheus"
# Go leaves the file alone when it is what would be built.
../build.sh "$out/prometheus" '' github.com/prometheus/prometheus/cmd/prometheus

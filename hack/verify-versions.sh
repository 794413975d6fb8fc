#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Fails if Weir and hack/kube use different versions of a module. Go would compile the module and
# everything that depends on it twice, which makes the first build minutes longer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

modules() {
	go list -deps -test -f '{{with .Module}}{{.Path}} {{.Version}}{{end}}' "$@" | sort -u
}

differ=$(join <(modules ./... tool) <(cd hack/kube && modules tool) | awk 'NF == 3 && $2 != $3')
if [[ $differ ]]; then
	echo "Versions differ between go.mod and hack/kube/go.mod; run 'go get MODULE@VERSION' where the lower one is, and 'go mod tidy':"
	echo "$differ"
	exit 1
fi >&2

#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds clients of rollouts.kruise.io that other projects wrote into bin/clients, for the
# end-to-end tests: a program that uses their libraries (hack/clients), the health script of Argo CD
# with its test data, and Helm. This repository contains no code of these projects.
set -euo pipefail

# The hash is the one of go.sum.
argo=github.com/argoproj/argo-cd/v3@v3.2.0
argo_sum=h1:m2eGAV+nXQGgzZbH5SyJD5laaPW27mzWXBrgisUHY/0=

# shellcheck source=hack/output.sh
source "$(dirname "${BASH_SOURCE[0]}")/output.sh" clients "$@"

(cd "$root/hack/clients" && ../build.sh "$out/clients" '' .)
(cd "$root/hack/helm" && ../build.sh "$out/helm" '' helm.sh/helm/v4/cmd/helm)

if [[ $(cat "$out/.argo" 2>/dev/null) != "$argo $argo_sum" ]]; then
	# Outside of all modules, so that no go.mod selects another version.
	read -r sum dir < <(cd / && go mod download -json "$argo" |
		awk -F'"' '$2 == "Sum" {sum = $4} $2 == "Dir" {dir = $4} END {print sum, dir}')
	if [[ $sum != "$argo_sum" ]]; then
		echo "$argo has the hash $sum, not $argo_sum" >&2
		exit 1
	fi
	rm -rf "$out/argo"
	cp -r "$dir/resource_customizations/rollouts.kruise.io/Rollout" "$out/argo"
	chmod -R u+w "$out/argo"
	echo "$argo $argo_sum" >"$out/.argo"
fi

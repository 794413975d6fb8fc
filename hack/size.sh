#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Prints hand-written lines of Go per area, without tests and generated code,
# beside what each was meant to have at most. It reports; it never fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# area, lines planned, directories
areas=(
	"hub and accessors|750|pkg/apis/rollouts"
	"v1beta1, v1alpha1|2400|pkg/apis/rollouts/v1beta1 pkg/apis/rollouts/v1alpha1"
	"validation, install, fuzzer|600|pkg/apis/rollouts/validation pkg/apis/rollouts/install pkg/apis/rollouts/fuzzer"
	"apiserver, cmd/apiserver|400|pkg/apiserver/... cmd/apiserver"
	"store|500|pkg/store"
	"registry|650|pkg/registry/..."
	"planner|1700|pkg/planner"
	"workload, object|1500|pkg/workload pkg/object"
	"traffic, lua|1000|pkg/traffic/... pkg/lua/..."
	"controllers, cmd/controller|1900|pkg/controller/... cmd/controller"
	"admission|450|pkg/admission/..."
)

# files DIR lists the hand-written files of a directory, or below DIR/...
files() {
	local dir=${1%/...} depth=(-maxdepth 1)
	[[ $1 == */... ]] && depth=()
	[[ -d $dir ]] || return 0
	find "$dir" "${depth[@]}" -name '*.go' ! -name '*_test.go' ! -name 'zz_generated.*' ! -path 'pkg/*test/*' -print
}

# count DIR... prints the number of files, of lines, and of the longest file.
count() {
	for dir in "$@"; do files "$dir"; done | while IFS= read -r file; do
		echo "$(wc -l <"$file") $file"
	done | awk '{n++; total += $1; if ($1 > longest) longest = $1} END {print n + 0, total + 0, longest + 0}'
}

printf '%-30s %6s %6s %8s %8s\n' area files lines planned longest
sum=0 planned=0
for row in "${areas[@]}"; do
	IFS='|' read -r name plan dirs <<<"$row"
	read -r n lines longest < <(count $dirs)
	printf '%-30s %6d %6d %8d %8d\n' "$name" "$n" "$lines" "$plan" "$longest"
	sum=$((sum + lines)) planned=$((planned + plan))
done
printf '%-30s %6s %6d %8d\n' total '' "$sum" "$planned"
read -r n lines longest < <(count hack/cluster hack/demo hack/oracle test/cluster test/e2e)
printf '%-30s %6d %6d %8s %8d\n' 'beside it: clusters, oracle' "$n" "$lines" '' "$longest"

#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Shows that the tests notice faults: hack/mutants.sh [NAME...]
#
# Each patch in hack/mutants is a small fault. Its first line has the name of the fault and, after a
# bar, the command whose tests must fail:
#
#   # Pauses pass without approval | go test -failfast ./pkg/planner/...
#
# A patch without a command uses the command below. The script tries the faults one by one in a copy
# of the working tree. A fault that no test notices, that does not build, or whose patch no longer
# applies is an error. If the code has moved, make the same fault by hand, and save the output of
# `git diff` as the new patch.
set -euo pipefail

command='go test -failfast -timeout 1h ./pkg/planner/... ./pkg/workload/... ./pkg/traffic/... ./pkg/registry/...'

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
trap 'exit 130' INT TERM
mkdir "$copy/tree"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
	if [[ -f $file ]]; then printf '%s\0' "$file"; fi
done | tar --null -T - -cf - | tar -xf - -C "$copy/tree"

patches=(hack/mutants/*.patch)
if (($#)); then
	patches=()
	for name in "$@"; do patches+=("hack/mutants/${name%.patch}.patch"); done
fi
declare -A commands faults
for patch in "${patches[@]}"; do
	IFS='|' read -r fault test < <(head -n 1 "$patch")
	fault=${fault#\# } test=${test# }
	faults[$patch]=${fault% }
	commands[$patch]=${test:-$command}
done

cd "$copy/tree"
# The copy is not a repository, and git must not find one above it.
export GIT_CEILING_DIRECTORIES=$copy
change() { git apply -C1 "$@" "$root/$patch"; }

echo "All tests must pass without a fault:"
printf '%s\n' "${commands[@]}" | sort -u | while IFS= read -r test; do
	echo "  $test"
	if ! $test >"$copy/log" 2>&1; then
		cat "$copy/log"
		exit 1
	fi
done

echo
printf '%-62s %-10s %s\n' fault result 'first test that turned red'
survivors=0
for patch in "${patches[@]}"; do
	result=killed red=''
	if ! change 2>"$copy/log"; then
		result='NO PATCH'
	else
		if ${commands[$patch]} >"$copy/log" 2>&1; then
			result=SURVIVED
		elif grep -q "\[build failed\]" "$copy/log"; then
			result='NO BUILD'
		else
			red=$(grep -oE -m 1 -- '--- FAIL: [^ ]+' "$copy/log" || grep -m 1 -E '^(panic|FAIL)' "$copy/log" || true)
		fi
		change -R
	fi
	printf '%-62s %-10s %s\n' "${faults[$patch]}" "$result" "${red#--- FAIL: }"
	[[ $result == killed ]] || survivors=$((survivors + 1))
	[[ $result != NO* ]] || sed 's/^/    /' "$copy/log"
done
echo
if ((survivors)); then
	echo "$survivors of ${#patches[@]} faults were not noticed."
	exit 1
fi
echo "All ${#patches[@]} faults were noticed."

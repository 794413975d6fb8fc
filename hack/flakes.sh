#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs tests many times on a busy machine, and counts failures: hack/flakes.sh TESTS [TIMES] [LOAD]
#
# TESTS is the name of a test, or several names separated by bars. LOAD busy loops, by default one
# for each core, keep the machine busy. The log of each failed run is printed. Each run of tests in
# test/ starts a control plane.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ! ${1:-} ]]; then
	echo "no tests are named; name them, as in make flakes RUN='TestA|TestB'" >&2
	exit 1
fi
tests=$1 times=${2:-10} load=${3:-$(getconf _NPROCESSORS_ONLN)}
mapfile -t packages < <(git grep --untracked -lE "^func ($tests)\(t \*testing\.T\)" -- '*_test.go' | xargs -r -n 1 dirname | sort -u | sed 's|^|./|')
if ((${#packages[@]} == 0)); then
	echo "there is no test with the name $tests" >&2
	exit 1
fi
make --no-print-directory build kube
log=$(mktemp)
loops=()
trap 'kill "${loops[@]}" 2>/dev/null; rm -f "$log"' EXIT
go test -tags e2e,clients,replicas,long,traffic -exec true "${packages[@]}" >/dev/null # compiles before the load starts
for ((i = 0; i < load; i++)); do
	(while :; do :; done) &
	loops+=($!)
done

failures=0
for ((i = 1; i <= times; i++)); do
	began=$SECONDS result=passed
	if ! go test -tags e2e,clients,replicas,long,traffic -count=1 -p 1 -timeout 1h -run "^($tests)\$" "${packages[@]}" >"$log" 2>&1; then
		failures=$((failures + 1)) result=FAILED
		cat "$log"
	fi
	printf 'run %d of %d: %s in %d s\n' "$i" "$times" "$result" $((SECONDS - began))
done
echo "$tests: $failures of $times runs failed, with $load busy loops"
((failures == 0))

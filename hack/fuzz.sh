#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes one target after the other, each for TIME: hack/fuzz.sh [TIME]
# Go writes an input that fails to testdata/fuzz of its package. Commit this file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${1:-30s}
found=0
while IFS=: read -r file line; do
	name=${line#func }
	name=${name%%(*}
	found=$((found + 1))
	echo "--- $name in $(dirname "$file")"
	go test "./$(dirname "$file")" -run '^$' -fuzz "^$name\$" -fuzztime "$time"
done < <(git grep --untracked -E '^func Fuzz[A-Za-z0-9_]*\(' -- '*_test.go')
echo "$found targets, $time each"

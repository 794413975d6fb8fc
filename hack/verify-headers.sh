#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Fails if a hand-written file of code has no licence header. The linter goheader checks only Go files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing=0
while IFS= read -r file; do
	[[ -f $file ]] || continue
	top=$(head -n 4 "$file")
	if [[ $top != *"SPDX-FileCopyrightText: The Weir Authors"* || $top != *"SPDX-License-Identifier: Apache-2.0"* ]]; then
		echo "$file: the licence lines of hack/boilerplate.go.txt are missing" >&2
		missing=1
	fi
done < <(git ls-files --cached --others --exclude-standard -- '*.go' '*.sh' 'artifacts/*.yaml' Makefile .golangci.yml .ci/run ':!*zz_generated*' ':!artifacts/examples/*')
exit "$missing"

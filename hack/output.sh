#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# For scripts that build programs of other projects, from nested modules, into a directory of bin.
# They source this file with the name of the directory and, optionally, another path for it. It sets
# root and out, and locks the directory, so that only one script builds there at a time.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=${2:-$root/bin/$1}
mkdir -p "$out"
out=$(cd "$out" && pwd)
if command -v flock >/dev/null; then
	exec 9>"$out/.lock"
	flock 9
fi
export CGO_ENABLED=0 GOWORK=off GOFLAGS=${GOFLAGS:--buildvcs=false}

#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# For scripts that build what others wrote, from modules of their own, into a directory of
# bin. They source it with the name of that directory and another place for it, if any. It
# sets root and out, and lets one script at a time build there.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=${2:-$root/bin/$1}
mkdir -p "$out"
out=$(cd "$out" && pwd)
if command -v flock >/dev/null; then
	exec 9>"$out/.lock"
	flock 9
fi
export CGO_ENABLED=0 GOWORK=off GOFLAGS=${GOFLAGS:--buildvcs=false}

#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Puts the binaries and the manifests of another version into bin/previous, to
# upgrade from and to go back to: hack/previous.sh [COMMIT]
#
# Without a commit it is this one, changed by hack/previous.patch so that it does
# not know a field that this one stores.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$root/bin/previous
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
git -C "$root" archive "${1:-HEAD}" | tar -xf - -C "$tree"
if (($# == 0)); then
	# The copy is no repository, and must not be taken for a part of one.
	(cd "$tree" && GIT_CEILING_DIRECTORIES=$(dirname "$tree") git apply "$root/hack/previous.patch")
fi
rm -rf "$out"
mkdir -p "$out"
make -C "$tree" --no-print-directory build OUT="$out"
cp -r "$tree/artifacts" "$out/artifacts"
# Manifests alone: what is left here is no part of this module.
find "$out/artifacts" -name '*.go' -delete

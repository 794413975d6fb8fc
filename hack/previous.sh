#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the binaries and the manifests of another version into bin/previous, for upgrade and
# downgrade tests: hack/previous.sh [COMMIT]
#
# Without COMMIT it builds this version with hack/previous.patch, which removes a field that this
# version stores.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$root/bin/previous
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
git -C "$root" archive "${1:-HEAD}" | tar -xf - -C "$tree"
if (($# == 0)); then
	# The copy is not a repository, and git must not find one above it.
	(cd "$tree" && GIT_CEILING_DIRECTORIES=$(dirname "$tree") git apply "$root/hack/previous.patch")
fi
rm -rf "$out"
mkdir -p "$out"
make -C "$tree" --no-print-directory build OUT="$out"
cp -r "$tree/artifacts" "$out/artifacts"
# Only the manifests are needed. Go files here would become a part of this module.
find "$out/artifacts" -name '*.go' -delete

#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0

# Fails if generated code differs from the output of hack/update-codegen.sh. It generates the code in
# a copy, so the working tree does not change.

set -o errexit -o nounset -o pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
copy="$(mktemp -d)"
trap 'rm -rf "${copy}"' EXIT

mkdir -p "${copy}/pkg/generated/openapi" "${copy}/hack"
cp "${root}/go.mod" "${root}/go.sum" "${copy}/"
cp "${root}/hack/boilerplate.go.txt" "${root}/hack/update-codegen.sh" "${copy}/hack/"
cp -R "${root}/pkg/apis" "${copy}/pkg/apis"
cp -R "${root}/hack/openapi-schema" "${copy}/hack/openapi-schema"
cp "${root}/pkg/generated/openapi/doc.go" "${copy}/pkg/generated/openapi/"
# The old files are removed, so that a generator that no longer runs is noticed.
find "${copy}/pkg" -name 'zz_generated.*' -delete

"${copy}/hack/update-codegen.sh"

for dir in pkg/apis pkg/generated; do
	if ! diff -Naupr "${root}/${dir}" "${copy}/${dir}"; then
		echo "${dir} is out of date: run hack/update-codegen.sh" >&2
		exit 1
	fi
done

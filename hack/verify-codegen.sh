#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0

# Fails when generated code is not what hack/update-codegen.sh writes. It
# regenerates in a copy; the checkout stays as it is.

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
# Without the old files a generator that no longer runs would go unseen.
find "${copy}/pkg" -name 'zz_generated.*' -delete

"${copy}/hack/update-codegen.sh"

for dir in pkg/apis pkg/generated; do
	if ! diff -Naupr "${root}/${dir}" "${copy}/${dir}"; then
		echo "${dir} is out of date: run hack/update-codegen.sh" >&2
		exit 1
	fi
done

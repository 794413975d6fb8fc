#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the image into a directory, without docker: hack/image.sh DIR
#
#   DIR/weir-image-VERSION                an OCI layout with the images of all platforms
#   DIR/weir-image-VERSION.oci.tar        the same as an archive
#   DIR/weir-image-VERSION-OS-ARCH.tar    an archive for docker load and kind load image-archive
#   DIR/weir-image-VERSION.digest         the digest of the OCI index, by which a registry will know it
#
#   VERSION    by default what git describe prints
#   PLATFORMS  by default linux/amd64 linux/arm64
#   IMAGE      the name of the image in the archives, without a tag; by default weir
#   PROGRAMS   a directory that keeps the programs, as OS-ARCH/PROGRAM; by default they are removed
#
# The same commit, Go and VERSION give the same bytes, in any directory: the programs have no paths
# (-trimpath), and all files have the time of the commit (or SOURCE_DATE_EPOCH). The script needs Go
# and git.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=${1:?a directory for the image}
version=${VERSION:-$(git describe --tags --always)}
platforms=${PLATFORMS:-linux/amd64 linux/arm64}
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
revision=$(git rev-parse HEAD)
if [[ ! ${PROGRAMS:-} ]]; then
	PROGRAMS=$(mktemp -d)
	trap 'rm -rf "$PROGRAMS"' EXIT
fi
mkdir -p "$PROGRAMS"
tool=$(cd "$PROGRAMS" && pwd)/release
# The tool runs here, whatever GOOS is.
(cd hack/release && GOWORK=off GOFLAGS=-buildvcs=false CGO_ENABLED=0 GOOS='' GOARCH='' ../build.sh "$tool" '' .)

export CGO_ENABLED=0 GOFLAGS="-buildvcs=false -trimpath"
flags=()
for platform in $platforms; do
	os=${platform%%/*} arch=${platform#*/}
	dir=$PROGRAMS/$os-$arch
	for program in apiserver controller dashboard; do
		GOOS=$os GOARCH=$arch hack/build.sh "$dir/weir-$program" "-X github.com/weir-rollouts/weir/pkg/dashboard.buildVersion=$version" "./cmd/$program"
	done
	GOOS=$os GOARCH=$arch hack/build.sh "$dir/etcd" '' go.etcd.io/etcd/server/v3
	flags+=(--platform="$platform=$dir")
done
mkdir -p "$out"
rm -rf "$out"/weir-image-*
"$tool" image --out="$out" --tag="${IMAGE:-weir}:$version" --version="$version" \
	--revision="$revision" --created="$epoch" "${flags[@]}"

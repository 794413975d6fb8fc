#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the archives of a release into a directory: hack/dist.sh DIR
#
#   VERSION    names the archives; by default what git describe prints
#   PLATFORMS  of the server; by default linux/amd64 linux/arm64
#   CLIENTS    platforms of kubectl-weir; by default those of linux, darwin and windows
#   RELEASES   where the archives will be, for the manifest of krew
#
# The same commit, Go and VERSION give the same bytes: entries are sorted, belong to user 0, and
# have the time of the commit (or SOURCE_DATE_EPOCH). The script needs Go, git, and tar, gzip and
# sha256sum of GNU. TAR names another tar.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=${1:?a directory for the archives}
version=${VERSION:-$(git describe --tags --always)}
platforms=${PLATFORMS:-linux/amd64 linux/arm64}
clients=${CLIENTS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}
releases=${RELEASES:-https://github.com/weir-rollouts/weir/releases/download/$version}
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
tar=${TAR:-tar}
# -trimpath removes the path of the source directory from the programs, as in images.
export CGO_ENABLED=0 GOFLAGS="-buildvcs=false -trimpath"

if [[ $version == */* ]]; then
	echo "VERSION=$version cannot be part of a file name" >&2
	exit 1
fi

git diff --quiet HEAD || echo "The working tree has changes that are not part of $version; commit them for a release." >&2

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$out"
rm -f "$out"/weir-*.tar.gz "$out"/kubectl-weir-*.tar.gz "$out"/SHA256SUMS "$out"/weir.yaml

# pack writes the archive of a directory of $stage, with LICENSE and README.
pack() {
	local archive=$1 directory=$2
	cp LICENSE README.md "$stage/$directory/"
	"$tar" --create --format=ustar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
		--mode='u=rwX,go=rX' --directory="$stage" "$directory" | gzip -9 -n >"$out/$archive"
	echo "$out/$archive"
}

for platform in $platforms; do
	for program in apiserver controller dashboard; do
		name=weir-$program-$version-${platform/\//-}
		mkdir "$stage/$name"
		GOOS=${platform%/*} GOARCH=${platform#*/} hack/build.sh "$stage/$name/weir-$program" "-X github.com/weir-rollouts/weir/pkg/dashboard.buildVersion=$version" "./cmd/$program"
		pack "$name.tar.gz" "$name"
	done
done

# The command line program, and the script that completes its arguments.
for platform in $clients; do
	name=kubectl-weir-$version-${platform/\//-}
	mkdir "$stage/$name"
	program=kubectl-weir
	[[ $platform != windows/* ]] || program=kubectl-weir.exe
	GOOS=${platform%/*} GOARCH=${platform#*/} hack/build.sh "$stage/$name/$program" "-X main.version=$version" ./cmd/kubectl-weir
	[[ $platform == windows/* ]] || cp artifacts/kubectl/kubectl_complete-weir "$stage/$name/"
	pack "$name.tar.gz" "$name"
done

# The manifests for kubectl apply -k, and the chart for helm install: only files that git tracks.
name=weir-manifests-$version
mkdir "$stage/$name" "$stage/weir"
git ls-files -z -- artifacts ':!*.go' | xargs -0 "$tar" --create | "$tar" --extract --directory="$stage/$name"
pack "$name.tar.gz" "$name"
git ls-files -z -- charts/weir | xargs -0 "$tar" --create | "$tar" --extract --directory="$stage" --strip-components=1
pack "weir-chart-$version.tar.gz" weir

(cd "$out" && sha256sum -- *weir-*.tar.gz >SHA256SUMS)
echo "$out/SHA256SUMS"

# The manifest for krew, kubectl's plugin manager. krew requires a version such as v0.2.0.
{
	cat <<-EOF
		apiVersion: krew.googlecontainertools.github.com/v1alpha2
		kind: Plugin
		metadata:
		  name: weir
		spec:
		  version: $version
		  homepage: https://github.com/weir-rollouts/weir
		  shortDescription: Show releases step by step, and act on them
		  description: |
		    Shows what a release of Weir waits for and what it will do, draws it live,
		    approves and aborts, waits for it in scripts, and converts manifests of
		    Argo Rollouts and Flagger.
		  platforms:
	EOF
	for platform in $clients; do
		name=kubectl-weir-$version-${platform/\//-}
		program=kubectl-weir
		[[ $platform != windows/* ]] || program=kubectl-weir.exe
		cat <<-EOF
			  - selector:
			      matchLabels: {os: ${platform%/*}, arch: ${platform#*/}}
			    uri: $releases/$name.tar.gz
			    sha256: $(cd "$out" && sha256sum "$name.tar.gz" | cut -d' ' -f1)
			    files: [{from: "$name/*", to: .}]
			    bin: $program
		EOF
	done
} >"$out/weir.yaml"
echo "$out/weir.yaml"

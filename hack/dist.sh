#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds everything that a release publishes into a directory: hack/dist.sh DIR
#
# Archives of the programs, manifests, chart and JSON schemas; the image (hack/image.sh); the chart as
# an OCI layout; a bill of materials of each program; the manifest of krew; and SHA256SUMS of all files.
#
#   VERSION    names the archives; by default what git describe prints
#   PLATFORMS  of the server; by default linux/amd64 linux/arm64
#   CLIENTS    platforms of kubectl-weir; by default those of linux, darwin and windows
#   RELEASES   where the archives will be, for the manifest of krew
#   IMAGE      where the image will be, such as ghcr.io/weir-rollouts/weir. The chart then has it as its
#              default, and the archives of the image are named so. By default the image is called weir
#
# The same commit, Go and VERSION give the same bytes: entries are sorted, belong to user 0, and
# have the time of the commit (or SOURCE_DATE_EPOCH). The script needs Go, git, and tar, gzip, sed and
# sha256sum of GNU. TAR names another tar.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=${1:?a directory for the archives}
version=${VERSION:-$(git describe --tags --always)}
platforms=${PLATFORMS:-linux/amd64 linux/arm64}
clients=${CLIENTS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}
releases=${RELEASES:-https://github.com/weir-rollouts/weir/releases/download/$version}
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
revision=$(git rev-parse HEAD)
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
rm -rf "$out"/weir-* "$out"/kubectl-weir-* "$out"/etcd-*.cdx.json "$out"/SHA256SUMS "$out"/weir.yaml

# pack writes the archive of a directory of $stage, with LICENSE and README.
pack() {
	local archive=$1 directory=$2
	cp LICENSE README.md "$stage/$directory/"
	"$tar" --create --format=ustar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
		--mode='u=rwX,go=rX' --directory="$stage" "$directory" | gzip -9 -n >"$out/$archive"
	echo "$out/$archive"
}

# The image comes first, because it builds the programs of the server.
programs=$stage/programs
mkdir "$programs"
VERSION=$version PLATFORMS=$platforms SOURCE_DATE_EPOCH=$epoch PROGRAMS=$programs hack/image.sh "$out"
release=$programs/release
build=(--version="$version" --revision="$revision" --created="$epoch")

# write_bom writes the bill of materials of a program.
write_bom() {
	"$release" bom "${build[@]}" "$1" "$out/$2.cdx.json"
	echo "$out/$2.cdx.json"
}

for platform in $platforms; do
	for program in apiserver controller dashboard; do
		name=weir-$program-$version-${platform/\//-}
		mkdir "$stage/$name"
		cp "$programs/${platform/\//-}/weir-$program" "$stage/$name/"
		pack "$name.tar.gz" "$name"
		write_bom "$stage/$name/weir-$program" "$name"
	done
	write_bom "$programs/${platform/\//-}/etcd" "etcd-$version-${platform/\//-}"
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
	write_bom "$stage/$name/$program" "$name"
done

# The JSON schemas of all kinds.
name=weir-schemas-$version
go run ./hack/schemas "$stage/$name"
pack "$name.tar.gz" "$name"

# The manifests for kubectl apply -k, and the chart for helm install: only files that git tracks.
name=weir-manifests-$version
mkdir "$stage/$name" "$stage/weir"
git ls-files -z -- artifacts ':!*.go' | xargs -0 "$tar" --create | "$tar" --extract --directory="$stage/$name"
pack "$name.tar.gz" "$name"
git ls-files -z -- charts/weir | xargs -0 "$tar" --create | "$tar" --extract --directory="$stage" --strip-components=1
# A version of Helm has three numbers. Other versions are those of a commit.
chart_version=${version#v}
[[ $chart_version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || chart_version=0.0.0-g${chart_version//[^0-9A-Za-z-]/-}
sed -i -e "s|^version: .*|version: $chart_version|" -e "s|^appVersion: .*|appVersion: \"$version\"|" "$stage/weir/Chart.yaml"
if [[ ${IMAGE:-} ]]; then
	sed -i -e "s|^  registry: \"\"\$|  registry: ${IMAGE%%/*}|" -e "s|^  repository: weir\$|  repository: ${IMAGE#*/}|" "$stage/weir/values.yaml"
fi
pack "weir-chart-$version.tar.gz" weir
"$release" chart "${build[@]}" "$out/weir-chart-$version.tar.gz" "$out/weir-chart-$version"

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

# OCI layouts are directories; their archives are among the files.
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0 sha256sum -- >SHA256SUMS)
echo "$out/SHA256SUMS"

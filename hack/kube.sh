#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the programs of the local control plane: hack/kube.sh [VERSION]
#
# Without a version they are those of hack/kube, in bin/kube, with etcd and kwok;
# 1.34 are those of hack/kube-1.34, in bin/kube-1.34, beside the etcd and the kwok of
# bin/kube. They come from nested modules, so that the product's go.mod stays clean.
# They are built again only when their pins or Go have changed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
module=kube${1:+-$1}
if [[ ! -f $root/hack/$module/go.mod ]]; then
	echo "there is no hack/$module with the pins of that version" >&2
	exit 1
fi
out=$root/bin/$module
mkdir -p "$out"
# Two clusters started at once must not build the same files.
if command -v flock >/dev/null; then
	exec 9>"$out/.lock"
	flock 9
fi

cd "$root/hack/$module"
# The pins decide, not a workspace of the caller's.
export CGO_ENABLED=0 GOWORK=off GOFLAGS=${GOFLAGS:--buildvcs=false}
packages=(k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kubectl})
if [[ $module == kube ]]; then
	packages+=(go.etcd.io/etcd/server/v3 sigs.k8s.io/kwok/cmd/kwok)
else
	ln -sf ../kube/etcd ../kube/kwok "$out"
fi

stamp=$({ go version && cat go.mod go.sum "$root/hack/kube.sh" && echo "$GOFLAGS"; } | sha256sum)
if [[ $stamp == "$(cat "$out/.stamp" 2>/dev/null)" ]] &&
	ls "$out"/{etcd,kwok,kubectl,kube-apiserver,kube-controller-manager,kube-scheduler} >/dev/null 2>&1; then
	echo "bin/$module is up to date"
	exit
fi

# Without these kube-apiserver calls itself v0.0.0-master and kubectl complains. The
# commit and the date are not known to the module proxy; any well-formed values do.
version() { go list -m -f '{{.Version}}' "$1" 2>/dev/null || true; }
kube=$(version k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${kube#v}"
ldflags="-X sigs.k8s.io/kwok/pkg/consts.Version=$(version sigs.k8s.io/kwok)"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	ldflags+=" -X $package.gitVersion=$kube -X $package.gitMajor=$major -X $package.gitMinor=$minor"
	ldflags+=" -X $package.gitTreeState=clean -X $package.gitCommit=0000000000000000000000000000000000000000"
	ldflags+=" -X $package.buildDate=1970-01-01T00:00:00Z"
done

rm -rf "$out/.stamp" "$out/.new"
"$root/hack/build.sh" "$out/.new/" "$ldflags" "${packages[@]}"
if [[ $module == kube ]]; then
	mv "$out/.new/server" "$out/.new/etcd" # go build names it so
fi
# Renaming lets a cluster that still runs the old files continue.
mv "$out"/.new/* "$out"
rmdir "$out/.new"
echo "$stamp" >"$out/.stamp"

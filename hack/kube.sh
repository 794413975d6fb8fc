#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the Kubernetes binaries of the local control plane: hack/kube.sh [VERSION]
#
# Without a version they are those of hack/kube, in bin/kube; 1.34 are those of
# hack/kube-1.34, in bin/kube-1.34, with the etcd and the kwok of bin/kube. Each
# comes from a nested module, so that the product's go.mod stays clean. A binary
# is built again only when its pins or the Go version have changed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
module=kube${1:+-$1}
if [[ ! -f $root/hack/$module/go.mod ]]; then
	echo "there is no hack/$module with the pins of that version" >&2
	exit 1
fi
shared=$root/bin/kube out=$root/bin/$module
mkdir -p "$shared" "$out"
# The pins decide, not whatever the caller's environment says.
export CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false

# stamp DIR PACKAGE FLAGS... names what the binary of that package depends on.
stamp() {
	local dir=$1
	shift
	{
		go version
		cat "$dir/go.mod" "$dir/go.sum"
		echo "$@"
	} | sha256sum | cut -d' ' -f1
}

# build OUT DIR PACKAGE LDFLAGS
build() {
	local out=$1 dir=$root/hack/$2 package=$3 name want began=$SECONDS
	local flags=(-trimpath -ldflags "-s -w $4")
	# Two clusters started at once must not build the same file.
	if command -v flock >/dev/null; then
		exec 9>"$out/.lock"
		flock 9
	fi
	name=$(basename "$package")
	[[ $name == v3 ]] && name=etcd
	want=$(stamp "$dir" "$package" "${flags[@]}")
	if [[ -x $out/$name && $(cat "$out/.$name.stamp" 2>/dev/null) == "$want" ]]; then
		printf '%-26s up to date\n' "$name"
		return
	fi
	printf '%-26s building\n' "$name"
	rm -f "$out/.$name.stamp"
	(cd "$dir" && go build -o "$out/.$name.new" "${flags[@]}" "$package")
	# Renaming lets a cluster that still runs the old file go on.
	mv "$out/.$name.new" "$out/$name"
	echo "$want" >"$out/.$name.stamp"
	printf '%-26s built in %d s\n' "$name" $((SECONDS - began))
}

# version DIR MODULE prints the version hack/DIR/go.mod pins.
version() {
	(cd "$root/hack/$1" && go list -m -f '{{.Version}}' "$2")
}

# Without these kube-apiserver calls itself v0.0.0-master and kubectl complains.
# The commit and the date are not known to the module proxy; any well-formed
# values do, and constant ones keep the build reproducible.
kube=$(version "$module" k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${kube#v}"
ldflags=
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	ldflags+=" -X $package.gitVersion=$kube -X $package.gitMajor=$major -X $package.gitMinor=$minor"
	ldflags+=" -X $package.gitTreeState=clean -X $package.gitCommit=0000000000000000000000000000000000000000"
	ldflags+=" -X $package.buildDate=1970-01-01T00:00:00Z"
done

build "$shared" etcd go.etcd.io/etcd/server/v3 ""
for name in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
	build "$out" "$module" "k8s.io/kubernetes/cmd/$name" "$ldflags"
done
kwok=$(version kwok sigs.k8s.io/kwok)
build "$shared" kwok sigs.k8s.io/kwok/cmd/kwok "-X sigs.k8s.io/kwok/pkg/consts.Version=$kwok"
if [[ $out != "$shared" ]]; then
	ln -sf ../kube/etcd ../kube/kwok "$out"
fi

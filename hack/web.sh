#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds pkg/dashboard/assets from web/src. esbuild is a Go module, so only Go is needed. The only
# other code in the pages is Preact, in web/vendor with its licence.
#
#   hack/web.sh build    writes web/src/wire.ts and pkg/dashboard/assets
#   hack/web.sh verify   fails if these files are out of date, if a type is wrong, or if Preact
#                        has changed
#   hack/web.sh watch    serves the pages with weir-apiserver --standalone, and updates them as web/src changes
#   hack/web.sh vendor   fetches Preact again, with npm
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export GOWORK=off

assets=pkg/dashboard/assets
preact=web/vendor/preact

bundle() {
	local out=$1
	shift
	mkdir -p "$out"
	cp web/src/index.html web/src/icon.svg "$out"
	NODE_PATH=web/vendor go tool -modfile=hack/web/go.mod esbuild web/src/main.tsx web/src/app.css \
		--bundle --outdir="$out" --entry-names=app --tsconfig-raw='{}' --target=es2022 --format=iife \
		--jsx=automatic --jsx-import-source=preact --log-level=warning --charset=utf8 \
		--banner:js="/* Weir, Apache-2.0. With Preact:
$(cat "$preact/LICENSE")
*/" "$@"
}

case ${1:-} in
build)
	go run ./hack/webwire >web/src/wire.ts
	rm -rf "$assets"
	bundle "$assets" --minify
	;;
verify)
	(cd "$preact" && sha256sum --check --quiet SHA256SUMS)
	made=$(mktemp -d)
	trap 'rm -rf "$made"' EXIT
	bundle "$made" --minify
	if ! go run ./hack/webwire | diff - web/src/wire.ts || ! diff -rq "$made" "$assets"; then
		echo "web/src/wire.ts or $assets is out of date: run make update" >&2
		exit 1
	fi
	go tool -modfile=hack/web/go.mod tsgo -p web
	;;
watch)
	made=$(mktemp -d)
	trap 'kill $(jobs -p); wait; rm -rf "$made"' EXIT
	bundle "$made/ui" --watch=forever --sourcemap=inline &
	bin/weir-apiserver --standalone --standalone-kubeconfig="$made/kubeconfig" >/dev/null 2>"$made/log" &
	echo "KUBECONFIG=$made/kubeconfig reaches the server; docs/clients.md describes how to move a release there."
	go run ./hack/webserve "$made/ui" "$made/kubeconfig"
	;;
vendor)
	version=$(sed -n 's/^ *"version": "\(.*\)",/\1/p' "$preact/package.json")
	made=$(mktemp -d)
	trap 'rm -rf "$made"' EXIT
	npm pack --silent --pack-destination "$made" "preact@${2:-$version}" >/dev/null
	tar -xzf "$made"/preact-*.tgz -C "$made"
	(cd "$preact" && find . -type f ! -name SHA256SUMS | sort) | while IFS= read -r file; do cp "$made/package/$file" "$preact/$file"; done
	(cd "$preact" && find . -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
	git -c core.pager=cat diff --stat -- "$preact"
	;;
*)
	sed -n '6,14s/^# *//p' "$0" >&2
	exit 1
	;;
esac

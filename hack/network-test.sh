#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs the short end-to-end pass in a network in which kube-apiserver reaches other processes only on
# the ports that the firewall of a private GKE cluster opens: 443 and 10250. It may also connect to its etcd and
# to itself. Needs root, nft and unshare.
#
#   hack/network-test.sh [flags of the tests]
set -euo pipefail

if [[ ${1:-} != inside ]]; then
	cd "$(dirname "${BASH_SOURCE[0]}")/.."
	for tool in nft unshare setpriv ip; do
		command -v "$tool" >/dev/null || { echo "$tool is missing: install nftables, util-linux and iproute2" >&2; exit 1; }
	done
	[[ $(id -u) == 0 ]] || { echo 'run this as root: it makes a network namespace' >&2; exit 1; }
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	go test -c -tags e2e -o "$work/e2e.test" ./test/e2e
	# kube-apiserver runs as a user of its own, by whom the firewall recognises it. It keeps the right to
	# read the certificates of the test.
	mkdir "$work/kube"
	for program in "${KUBE:-$PWD/bin/kube}"/*; do
		ln -s "$(readlink -f "$program")" "$work/kube/$(basename "$program")"
	done
	rm "$work/kube/kube-apiserver"
	cat >"$work/kube/kube-apiserver" <<-SCRIPT
		#!/bin/sh
		exec setpriv --reuid=64250 --regid=64250 --clear-groups --inh-caps=+dac_override --ambient-caps=+dac_override \\
			"$(readlink -f "${KUBE:-$PWD/bin/kube}/kube-apiserver")" "\$@"
	SCRIPT
	chmod -R a+rX "$work"
	chmod a+x "$work/kube/kube-apiserver"
	unshare --net "${BASH_SOURCE[0]}" inside "$work" "$@"
	exit
fi

work=$2
shift 2
ip link set lo up
nft -f - <<'RULES'
table inet weir {
	set kube { type inet_service; }
	chain output {
		type filter hook output priority 0;
		meta skuid != 64250 accept
		# Answers to clients of kube-apiserver.
		ct state established,related accept
		tcp dport { 443, 10250 } counter accept comment "to nodes and pods"
		tcp dport @kube accept comment "to etcd and to itself"
		meta l4proto tcp counter drop
	}
}
RULES
# Each cluster has other ports. Their processes name them in their command lines.
(
	while :; do
		for port in $(pgrep -u 64250 -a | grep -oE -- '--(etcd-servers=http://127.0.0.1:|secure-port=)[0-9]+' | grep -oE '[0-9]+$'); do
			nft add element inet weir kube "{ $port }"
		done
		sleep 0.05
	done
) &
watcher=$!
trap 'kill "$watcher"' EXIT
cd test/e2e
status=0
"$work/e2e.test" -test.count=1 -test.short -e2e.port=10250 -e2e.kube="$work/kube" "$@" || status=$?
nft list chain inet weir output
exit "$status"

#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds programs of the module in the working directory, and shows the progress:
#   hack/build.sh OUT LDFLAGS PACKAGE...
#
# OUT is a file, or a directory that ends in a slash. On a terminal the progress is one line that
# is updated, otherwise a new line every 30 seconds. It does not count packages in the build cache.
#
# All modules are built with the same flags and the same versions of shared dependencies
# (hack/verify-versions.sh), so that Go compiles nothing twice. Flags that change the compiled
# packages, such as -trimpath, belong in GOFLAGS.
set -euo pipefail

out=$1 ldflags=$2
shift 2
name=$(basename "${out%/.new/}")
[[ $out != */ ]] || mkdir -p "$out"

declare -A packages=()
modules=0 built=0 shown=0

# progress prints the progress. On a terminal it overwrites the line before.
progress() {
	local text
	printf -v text '%-16s %4d of %d packages, %d s' "$name" "$built" "${#packages[@]}" "$SECONDS"
	((${#packages[@]})) || printf -v text '%-16s %d modules read, %d s' "$name" "$modules" "$SECONDS"
	if [[ -t 1 ]]; then
		printf '\r\e[K%s' "$text"
	elif ((SECONDS - shown >= 30)); then
		shown=$SECONDS
		echo "$text"
	fi
}

while IFS= read -r line; do
	case $line in
	'go: downloading '*) modules=$((modules + 1)) ;;
	'package: '*) packages[${line#package: }]=1 ;;
	'exit: 0')
		[[ ! -t 1 ]] || printf '\r\e[K'
		printf '%-16s built in %d s, %d of %d packages compiled\n' "$name" "$SECONDS" "$built" "${#packages[@]}"
		exit 0
		;;
	'exit: '*) exit 1 ;;
	*)
		if [[ ${packages[$line]:-} ]]; then
			built=$((built + 1))
		else
			echo "$line" >&2
		fi
		;;
	esac
	progress
done < <(
	{
		list=$(go list -deps -f 'package: {{.ImportPath}}' "$@") && echo "$list" &&
			go build -v -o "$out" -ldflags="-s -w $ldflags" "$@"
		echo "exit: $?"
	} 2>&1
)
exit 1

#!/usr/bin/env bash
# SPDX-FileCopyrightText: The Weir Authors
# SPDX-License-Identifier: Apache-2.0
#
# Fails if a file uses a word that hack/words.txt replaces. With --to-come it counts the words that
# are not checked yet, by directory, and does not fail.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

section=checked
[[ ${1:-} != --to-come ]] || section='to come'

# Hand-written code, comments and pages.
git ls-files --cached --others --exclude-standard -- '*.go' '*.md' '*.sh' '*.yaml' Makefile .golangci.yml .ci/run \
	':!*testdata/*' ':!*zz_generated*' ':!pkg/generated/*' ':!charts/weir/templates/*' ':!hack/verify-words.sh' |
	while IFS= read -r file; do [[ ! -f $file ]] || printf '%s\n' "$file"; done |
	awk -v section="$section" -v list=hack/words.txt '
function trimmed(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }

# All words of one kind form one pattern. If it matches, each word is tried.
function add(kind, word, instead,    quoted) {
	quoted = word
	gsub(/\./, "[.]", quoted)
	any[kind] = any[kind] (kind in any && any[kind] != "" ? "|" : "") quoted
	words[kind, ++count[kind]] = word
	say[kind, word] = instead
	pattern[kind, word] = "(^|[^[:alnum:]_])" quoted "([^[:alnum:]_]|$)"
}

function allowed(word, path,    i) {
	for (i = 1; i <= allows; i++) if (allow[i] == word && index(path, below[i]) == 1) return 1
	return 0
}

function found(kind, word, where) {
	if (allowed(word, path)) return
	if (section == "to come") {
		split(path, part, "/")
		total[kind " " word]++
		at[kind " " word, part[1] "/" part[2]]++
		return
	}
	printf "%s: \"%s\" is now \"%s\"\n", where, word, say[kind, word]
	bad = 1
}

function look(kind, text, where,    i) {
	if (!count[kind] || text !~ ("(^|[^[:alnum:]_])(" any[kind] ")([^[:alnum:]_]|$)")) return
	for (i = 1; i <= count[kind]; i++)
		if (text ~ pattern[kind, words[kind, i]]) found(kind, words[kind, i], where)
}

function paths(    i, word) {
	for (i = 1; i <= count["path"]; i++) {
		word = words["path", i]
		if (word ~ /\/$/ ? index(path, word) == 1 : path == word || substr(path, length(path) - length(word)) == "/" word)
			found("path", word, path)
	}
}

BEGIN {
	now = "checked"
	while ((getline line < list) > 0) {
		if (line == "# to come") now = "to come"
		if (line ~ /^#/ || line == "") continue
		kind = line; sub(/ .*/, "", kind)
		split(substr(line, length(kind) + 1), field, "|")
		if (kind == "allow") { allow[++allows] = trimmed(field[1]); below[allows] = trimmed(field[2]) }
		else if (now == section) add(kind, trimmed(field[1]), trimmed(field[2]))
	}
}

{
	path = $0
	paths()
	number = 0
	while ((getline line < path) > 0) {
		where = path ":" ++number
		lower = tolower(line)
		look("prose", lower, where)
		if (path ~ /[.]md$/) look("page", lower, where)
		if (path !~ /[.]go$/) continue
		gsub(/"([^"\\]|\\.)*"|`[^`]*`/, "", line)
		sub(/\/\/.*/, "", line)
		look("name", line, where)
	}
	close(path)
}

END {
	for (word in total) {
		text = ""
		for (key in at) {
			split(key, part, SUBSEP)
			if (part[1] == word) text = text " " part[2] " " at[key]
		}
		printf "%4d  %-24s%s\n", total[word], word, text | "sort -rn"
	}
	exit bad
}'

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"io"
	"slices"
)

// managedFieldsFilter reads an admission review and omits the managed fields of its objects. Admission does
// not need them. Every user who may patch a workload can add many of them. If they counted towards the
// limits, such a user could prevent the workload from being judged.
type managedFieldsFilter struct {
	reader io.Reader
	// depth is the number of open lists and objects. matched is the number of leading keys of managedPath
	// that enclose the next value.
	depth, matched    int
	inString, escaped bool
	// lastString is the last string that was read, up to the maximum length of a key in managedPath.
	lastString []byte
	// omitDepth is the depth of the list that is being omitted; 0 if none is.
	omitDepth int
}

// managedPath is the path to the managed fields: the accepted keys at each depth.
var managedPath = [][]string{{"request"}, {"object", "oldObject"}, {"metadata"}, {"managedFields"}}

// maxKeyLength is longer than every key in managedPath.
const maxKeyLength = 16

// Read implements io.Reader.
func (u *managedFieldsFilter) Read(p []byte) (int, error) {
	for {
		n, err := u.reader.Read(p)
		kept := p[:0]
		for _, b := range p[:n] {
			if u.keepByte(b) {
				kept = append(kept, b)
			}
		}
		if len(kept) > 0 || err != nil || n == 0 {
			return len(kept), err
		}
	}
}

// keepByte processes one byte, and reports whether the byte stays in the output.
func (u *managedFieldsFilter) keepByte(b byte) bool {
	left := u.omitDepth > 0
	if u.inString {
		u.readStringByte(b)
		return !left
	}
	switch b {
	case '"':
		u.inString, u.lastString = true, u.lastString[:0]
	case ':':
		u.matchKey()
	case '[', '{':
		u.openBracket(b)
	case ']', '}':
		u.closeBracket()
	}
	return !left || u.omitDepth == 0
}

// openBracket begins a list or an object.
func (u *managedFieldsFilter) openBracket(b byte) {
	u.depth++
	if b == '[' && u.omitDepth == 0 && u.matched == len(managedPath) && u.depth == len(managedPath)+1 {
		u.omitDepth = u.depth
	}
}

// closeBracket ends a list or an object.
func (u *managedFieldsFilter) closeBracket() {
	if u.depth--; u.depth < u.omitDepth {
		u.omitDepth = 0
	}
	u.matched = min(u.matched, max(u.depth, 0))
}

// readStringByte processes one byte of a string.
func (u *managedFieldsFilter) readStringByte(b byte) {
	switch {
	case b == '"' && !u.escaped:
		u.inString = false
	case len(u.lastString) < maxKeyLength:
		u.lastString = append(u.lastString, b)
	}
	u.escaped = b == '\\' && !u.escaped
}

// matchKey compares the last string, which is a key of the innermost object, with managedPath.
func (u *managedFieldsFilter) matchKey() {
	at := u.depth - 1
	if u.omitDepth > 0 || at < 0 || at >= len(managedPath) || u.matched < at {
		return
	}
	if u.matched = at; slices.Contains(managedPath[at], string(u.lastString)) {
		u.matched++
	}
}

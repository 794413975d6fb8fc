// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"io"
	"slices"
)

// withoutManaged reads an admission review without the managed fields of its objects. They say
// nothing to admission, and whoever may patch a workload may have many of them: they must
// neither be kept nor count, or the workload could be judged no more.
type withoutManaged struct {
	of io.Reader
	// depth is how many lists and objects are open, and within how many of the keys of
	// the path the next value is.
	depth, within int
	quoted, slash bool
	// word is the last string, as far as it may be a key of the path.
	word []byte
	// omits is the depth of the list that is being left out; 0 if none is.
	omits int
}

// managedPath leads to them, by the keys of each object.
var managedPath = [][]string{{"request"}, {"object", "oldObject"}, {"metadata"}, {"managedFields"}}

// longestWord is more than any of these keys has.
const longestWord = 16

// Read implements io.Reader.
func (u *withoutManaged) Read(p []byte) (int, error) {
	for {
		n, err := u.of.Read(p)
		kept := p[:0]
		for _, b := range p[:n] {
			if u.keeps(b) {
				kept = append(kept, b)
			}
		}
		if len(kept) > 0 || err != nil || n == 0 {
			return len(kept), err
		}
	}
}

// keeps takes a byte, and reports whether it is one of what is left.
func (u *withoutManaged) keeps(b byte) bool {
	left := u.omits > 0
	if u.quoted {
		u.quote(b)
		return !left
	}
	switch b {
	case '"':
		u.quoted, u.word = true, u.word[:0]
	case ':':
		u.key()
	case '[', '{':
		u.open(b)
	case ']', '}':
		u.close()
	}
	return !left || u.omits == 0
}

// open begins a list or an object.
func (u *withoutManaged) open(b byte) {
	u.depth++
	if b == '[' && u.omits == 0 && u.within == len(managedPath) && u.depth == len(managedPath)+1 {
		u.omits = u.depth
	}
}

// close ends one.
func (u *withoutManaged) close() {
	if u.depth--; u.depth < u.omits {
		u.omits = 0
	}
	u.within = min(u.within, max(u.depth, 0))
}

// quote takes a byte of a string.
func (u *withoutManaged) quote(b byte) {
	switch {
	case b == '"' && !u.slash:
		u.quoted = false
	case len(u.word) < longestWord:
		u.word = append(u.word, b)
	}
	u.slash = b == '\\' && !u.slash
}

// key takes the last string for a key of the object that is open.
func (u *withoutManaged) key() {
	at := u.depth - 1
	if u.omits > 0 || at < 0 || at >= len(managedPath) || u.within < at {
		return
	}
	if u.within = at; slices.Contains(managedPath[at], string(u.word)) {
		u.within++
	}
}

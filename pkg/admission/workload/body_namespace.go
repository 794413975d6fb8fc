// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import "bytes"

const (
	// mostOfNamespace is the maximum number of bytes in flight of reviews from one address
	// about one namespace.
	mostOfNamespace = mostOfOne / 2
	// longestHead is how many bytes of a review are searched for its namespace. kube-apiserver
	// sends the namespace after names and kinds, and before the objects.
	longestHead = 4 << 10
)

// notice searches the bytes that have been read for the namespace of the review. If it finds none,
// only the limit of the address applies. Users cannot forge the namespace: kube-apiserver writes
// the bytes before it, user names follow it, and object names contain no quotes.
func (b *body) notice(read []byte) {
	if b.share != "" || len(b.head) >= longestHead {
		return
	}
	b.head = append(b.head, read[:min(len(read), longestHead-len(b.head))]...)
	_, after, _ := bytes.Cut(b.head, []byte(`"namespace":"`))
	namespace, _, found := bytes.Cut(after, []byte(`"`))
	if !found {
		return
	}
	b.all.assign(b, b.from+"\x00"+string(namespace))
	b.head = nil
}

// assign sets the share of a body and counts the bytes that were read before.
func (f *inFlight) assign(b *body, share string) {
	f.Lock()
	defer f.Unlock()
	b.share = share
	if b.n > 0 {
		f.add(share, b.n)
	}
}

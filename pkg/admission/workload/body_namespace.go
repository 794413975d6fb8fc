// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import "bytes"

const (
	// mostOfNamespace bounds what is read of the reviews about one namespace from one address.
	mostOfNamespace = mostOfOne / 2
	// longestHead is in how much of a review its namespace is looked for. kube-apiserver sends
	// it before the objects, after names and kinds.
	longestHead = 4 << 10
)

// notice looks for the namespace of a review in what is read of it. A body in which it is not
// found has the share of its address only. The bytes before the objects are kube-apiserver's:
// names of users are after the namespace, and names of objects have no quotes.
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

// assign counts what was read of a body before its share was known.
func (f *inFlight) assign(b *body, share string) {
	f.Lock()
	defer f.Unlock()
	b.share = share
	if b.n > 0 {
		f.add(share, b.n)
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import "bytes"

const (
	// maxNamespaceBytes limits the bytes in flight of reviews from one address about one namespace.
	maxNamespaceBytes = maxAddressBytes / 2
	// maxHeadBytes is how many bytes of a review are searched for its namespace. kube-apiserver sends the
	// namespace after names and kinds, and before the objects.
	maxHeadBytes = 4 << 10
)

// findNamespace searches the bytes that have been read for the namespace of the review. If it finds none,
// only the limit of the address applies. Users cannot forge the namespace: kube-apiserver writes the bytes
// before it, user names follow it, and object names contain no quotes.
func (b *body) findNamespace(read []byte) {
	if b.namespaceKey != "" || len(b.head) >= maxHeadBytes {
		return
	}
	b.head = append(b.head, read[:min(len(read), maxHeadBytes-len(b.head))]...)
	_, after, _ := bytes.Cut(b.head, []byte(`"namespace":"`))
	namespace, _, found := bytes.Cut(after, []byte(`"`))
	if !found {
		return
	}
	b.limits.setNamespace(b, b.address+"\x00"+string(namespace))
	b.head = nil
}

// setNamespace sets the namespace key of a body and counts the bytes that were read before.
func (f *inFlight) setNamespace(b *body, share string) {
	f.Lock()
	defer f.Unlock()
	b.namespaceKey = share
	if b.size > 0 {
		f.addBytes(share, b.size)
	}
}

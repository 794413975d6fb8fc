// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
	"k8s.io/utils/lru"
)

// sameTemplate reports whether two templates are equal except for the hash label. The native
// controller of Deployments compares templates in the same way.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	return sameImages(a, b) && equalContent(withoutHash(a), withoutHash(b))
}

// sameWholeTemplate reports whether two templates are equal in all fields. Native controllers that
// keep templates in ControllerRevisions compare in this way: each label, and each spelling of a
// quantity such as 1000m for 1, makes another revision and replaces the pods.
func sameWholeTemplate(a, b *corev1.PodTemplateSpec) bool {
	return sameImages(a, b) && digestWithLabels(a) == digestWithLabels(b)
}

// sameImages is a fast check before the full comparison. Templates are compared at every event of a
// workload, and different templates usually have different images.
func sameImages(a, b *corev1.PodTemplateSpec) bool {
	x, y := a.Spec.Containers, b.Spec.Containers
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i].Image != y[i].Image {
			return false
		}
	}
	return true
}

// equalContent compares the encoded templates first. It compares the fields only if the encodings
// differ, because that takes many times longer.
func equalContent(a, b *corev1.PodTemplateSpec) bool {
	x, xErr := a.Marshal()
	y, yErr := b.Marshal()
	return xErr == nil && yErr == nil && bytes.Equal(x, y) || equality.Semantic.DeepEqual(a, b)
}

// withoutHash returns a template without the hash label. The result shares all other data with t.
func withoutHash(t *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	if _, ok := t.Labels[hashLabel]; !ok {
		return t
	}
	bare := *t
	bare.Labels = maps.Clone(t.Labels)
	delete(bare.Labels, hashLabel)
	return &bare
}

// hashCache caches the short hash of the last templates by digest, since each event of a workload
// needs the hash again. Keys and values have a fixed length, so the cache is bounded.
var hashCache = lru.New(hashCacheSize)

const hashCacheSize = 1024

// Digest returns the SHA-256 digest of a Deployment's template without the hash label, in
// hexadecimal digits; empty for nil. The digest identifies the template. The short hash of
// native controllers does not: another template with the same hash is found in a second.
func Digest(t *corev1.PodTemplateSpec) string {
	if t == nil {
		return ""
	}
	return digestWithLabels(withoutHash(t))
}

// digestWithLabels returns the digest of a whole template, labels included. Kinds with
// ControllerRevisions need it: for them any changed label is a new revision.
func digestWithLabels(t *corev1.PodTemplateSpec) string {
	if t == nil {
		return ""
	}
	encoded, err := t.Marshal()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

// TemplateHash identifies a template by content, with the native controller's formula. The hash
// depends on the version of the API with which this program was built. Use it to distinguish
// revisions, never to find ReplicaSets.
func TemplateHash(t *corev1.PodTemplateSpec) string {
	key := Digest(t)
	if hash, ok := hashCache.Get(key); ok && key != "" {
		return hash.(string)
	}
	hash := hashWithCollisions(t, 0)
	if key != "" {
		hashCache.Add(key, hash)
	}
	return hash
}

// hashWithCollisions returns the hash after a number of name collisions.
func hashWithCollisions(t *corev1.PodTemplateSpec, collisions uint32) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%v", dump.ForHash(*withoutHash(t)))
	if collisions > 0 {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(collisions)))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

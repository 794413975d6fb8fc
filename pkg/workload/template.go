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

// sameTemplate compares all but the hash label, as the native controller of
// Deployments does.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	return sameImages(a, b) && equalContent(withoutHash(a), withoutHash(b))
}

// sameWholeTemplate compares all of two templates, as native controllers do that keep them
// in ControllerRevisions: for those each label makes another revision.
//
// Quantities of the same value in another spelling make another revision, too: native
// controllers compare the encoded revisions and replace the pods.
func sameWholeTemplate(a, b *corev1.PodTemplateSpec) bool {
	return sameImages(a, b) && digestWithLabels(a) == digestWithLabels(b)
}

// sameImages is asked first: templates are compared with every event of a workload, and
// mostly their images differ.
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

// equalContent compares all: those that are encoded alike are the same, and only others are walked
// through, which takes many times longer.
func equalContent(a, b *corev1.PodTemplateSpec) bool {
	x, xErr := a.Marshal()
	y, yErr := b.Marshal()
	return xErr == nil && yErr == nil && bytes.Equal(x, y) || equality.Semantic.DeepEqual(a, b)
}

// withoutHash returns a template without the hash label. It shares all else with t.
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

// TemplateHash identifies a template by content, with the native controller's
// formula. It depends on the version of the API that this program was built
// with: tell revisions apart with it, never find ReplicaSets by it.
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

// hashWithCollisions is the hash after that many collisions of names.
func hashWithCollisions(t *corev1.PodTemplateSpec, collisions uint32) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%v", dump.ForHash(*withoutHash(t)))
	if collisions > 0 {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(collisions)))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

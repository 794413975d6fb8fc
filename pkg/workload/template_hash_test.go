// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
)

// clearHashes empties the cache of template hashes until the test ends.
func clearHashes(t *testing.T) {
	saved := hashCache
	hashCache = lru.New(hashCacheSize)
	t.Cleanup(func() { hashCache = saved })
}

// live returns how many bytes are in use.
func live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestHashCacheIsBounded checks that the cache of template hashes is bounded, whatever templates
// users write.
func TestHashCacheIsBounded(t *testing.T) {
	for size, objects := range map[int]int{1 << 10: 4 * hashCacheSize, 900 << 10: 32} {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			clearHashes(t)
			before := live()
			for i := range objects {
				TemplateHash(&corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
					"text": fmt.Sprint(i, strings.Repeat("x", size)),
				}}})
			}
			if kept := int64(live()) - int64(before); kept > 6<<20 { //nolint:gosec // some MiB
				t.Errorf("%d objects leave %d KiB", objects, kept>>10)
			}
			if n := hashCache.Len(); n != min(objects, hashCacheSize) {
				t.Errorf("%d templates are known of %d", n, objects)
			}
		})
	}
}

func TestHashCacheKeepsLargeTemplates(t *testing.T) {
	clearHashes(t)
	large := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"text": strings.Repeat("x", 900<<10)}}}
	if first := TemplateHash(large); TemplateHash(large.DeepCopy()) != first || hashCache.Len() != 1 {
		t.Errorf("%d hashes are kept of a large template", hashCache.Len())
	}
}

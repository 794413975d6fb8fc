// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package collision creates pod templates that have the short hash of another template. Tests use
// it to show that Weir identifies nothing by such a hash.
package collision

import (
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"
)

// Annotation is the key of the annotation that Of adds.
const Annotation = "example.com/twin"

const (
	prime   = 16777619
	inverse = 899433627 // prime * inverse = 1 modulo 2^32
	letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	hole    = "~~~~~~"
)

// Of returns a copy of other with an additional annotation of six characters, so that its short
// hash equals that of base. The hash is 32-bit FNV-1a, whose steps are invertible. So Of finds the
// annotation by meet in the middle: three characters forwards and three backwards.
func Of(base, other *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	twin := other.DeepCopy()
	if twin.Annotations == nil {
		twin.Annotations = map[string]string{}
	}
	twin.Annotations[Annotation] = hole
	before, after, _ := strings.Cut(text(twin), hole)
	end := forward(offset, text(base))
	for i := len(after) - 1; i >= 0; i-- {
		end = end*inverse ^ uint32(after[i])
	}
	start := forward(offset, before)
	halves := map[uint32]string{}
	triples(func(half string) bool {
		halves[forward(start, half)] = half
		return false
	})
	found := triples(func(half string) bool {
		h := end
		for i := len(half) - 1; i >= 0; i-- {
			h = h*inverse ^ uint32(half[i])
		}
		first, ok := halves[h]
		twin.Annotations[Annotation] = first + half
		return ok
	})
	if !found {
		panic("no annotation of six characters gives the hash")
	}
	return twin
}

var offset = fnv.New32a().Sum32()

// text is what native controllers hash.
func text(t *corev1.PodTemplateSpec) string { return dump.ForHash(*t) }

func forward(h uint32, s string) uint32 {
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * prime
	}
	return h
}

// triples calls yield with every word of three letters, until it returns true.
func triples(yield func(string) bool) bool {
	for _, a := range letters {
		for _, b := range letters {
			for _, c := range letters {
				if yield(string([]rune{a, b, c})) {
					return true
				}
			}
		}
	}
	return false
}

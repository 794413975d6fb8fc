// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// The index of a namespace is a ConfigMap that maps each held workload to its Rollout. The
// admission policies in kube-apiserver read it, because they cannot read Rollouts while Weir is
// unavailable.

// longKeyPrefixes maps each kind that the policies hold to a short prefix. The prefix replaces group
// and kind in the index key if the name is long. A hash is impossible, because CEL in admission
// policies has no hash function. Keys stay unique: a name begins with a lower-case letter or a
// digit, never with an upper-case prefix.
var longKeyPrefixes = map[schema.GroupKind]string{
	deploymentKind.GroupKind():  "D",
	statefulSetKind.GroupKind(): "S",
	daemonSetKind.GroupKind():   "", // its names may have as many characters as a key
}

// IndexKey returns the key of a workload in the ConfigMap rollouts-index. No name contains an
// underscore, so the long form is unambiguous. The policies look up the long and the short form.
func IndexKey(kind schema.GroupKind, name string) string {
	key := kind.String() + "_" + name
	if prefix, ok := longKeyPrefixes[kind]; ok && !Indexable(key) {
		return prefix + name
	}
	return key
}

// Indexable reports whether a key is valid in a ConfigMap. A workload without a valid key is held
// by the webhook alone. This concerns custom resources, which no policy holds anyway, and
// Deployments and StatefulSets with names of 253 characters, which cannot create pods.
func Indexable(key string) bool { return len(validation.IsConfigMapKey(key)) == 0 }

// maxIndexBytes is the maximum size of an index. It is somewhat below etcd's limit for one object.
const maxIndexBytes = 1 << 20

// FitsIndex reports whether the index has space for an entry after the entries of this Rollout, and
// of the Rollouts in without, are removed.
func FitsIndex(index *corev1.ConfigMap, key, rollout string, without sets.Set[string]) bool {
	size := len(key) + len(rollout)
	if index != nil {
		for key, by := range index.Data {
			if by != rollout && !without.Has(by) {
				size += len(key) + len(by)
			}
		}
	}
	return size <= maxIndexBytes
}

// IndexKeys returns the keys of the entries for a Rollout; none if index is nil.
func IndexKeys(index *corev1.ConfigMap, rollout string) []string {
	var keys []string
	if index == nil || index.Labels[rollouts.LabelIndex] != "true" {
		return nil
	}
	for key, by := range index.Data {
		if by == rollout {
			keys = append(keys, key)
		}
	}
	return keys
}

// UpdateIndex makes each key the only entry of its Rollout. An empty key removes all entries of the
// Rollout. The index is deleted with its last entry.
func UpdateIndex(index *corev1.ConfigMap, namespace string, keys map[string]string) []object.Change {
	want := buildIndex(index, namespace, keys)
	switch {
	case index == nil && len(want.Data) == 0:
		return nil
	case index == nil:
		return []object.Change{{Want: want}}
	case len(want.Data) == 0:
		return []object.Change{{Base: index}}
	case equality.Semantic.DeepEqual(index, want):
		return nil
	case index.Immutable != nil && *index.Immutable:
		// A user has set immutable. The only remedy is to delete and recreate the ConfigMap.
		again := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: rollouts.IndexName}, Data: want.Data}
		setLabel(again, rollouts.LabelIndex, "true")
		return []object.Change{{Base: index}, {Want: again}}
	}
	// A single empty entry makes kube-apiserver stop tracking managed fields. Tracking the writer of
	// each of thousands of entries would double the size of the index.
	want.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	return []object.Change{{Base: index, Want: want}}
}

func buildIndex(index *corev1.ConfigMap, namespace string, keys map[string]string) *corev1.ConfigMap {
	want := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: rollouts.IndexName}}
	if index != nil {
		want = index.DeepCopy()
	}
	setLabel(want, rollouts.LabelIndex, "true")
	if want.Data == nil {
		want.Data = map[string]string{}
	}
	want.BinaryData = nil // Weir owns the whole ConfigMap and needs the space
	maps.DeleteFunc(want.Data, func(key, by string) bool {
		only, ours := keys[by]
		return ours && key != only
	})
	for by, key := range keys {
		if key != "" {
			want.Data[key] = by
		}
	}
	return want
}

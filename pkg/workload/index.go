// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// The index of a namespace says which Rollout holds which workload. The policies
// in kube-apiserver read it, since they cannot read Rollouts while we are down.

// IndexKey is the key of a workload in the index: the underscore is in no name.
func IndexKey(kind schema.GroupKind, name string) string { return kind.String() + "_" + name }

// Indexable tells that a key can stand in an index. A longer name is held by the
// webhook alone.
func Indexable(key string) bool { return len(validation.IsConfigMapKey(key)) == 0 }

// Entries are the keys that name a Rollout; index is nil where there is none.
func Entries(index *corev1.ConfigMap, rollout string) []string {
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

// Enter makes key the only entry of a Rollout, or takes all out where it is
// empty; with the last one the index goes.
func Enter(index *corev1.ConfigMap, namespace, rollout, key string) []object.Change {
	if index == nil {
		if key == "" {
			return nil
		}
		return []object.Change{{Want: &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: rollouts.IndexName, Labels: map[string]string{rollouts.LabelIndex: "true"},
			},
			Data: map[string]string{key: rollout},
		}}}
	}
	want := index.DeepCopy()
	label(want, rollouts.LabelIndex, "true")
	maps.DeleteFunc(want.Data, func(k, by string) bool { return by == rollout && k != key })
	switch {
	case key != "":
		if want.Data == nil {
			want.Data = map[string]string{}
		}
		want.Data[key] = rollout
	case len(want.Data) == 0:
		return []object.Change{{Base: index}}
	}
	return change(index, want)
}

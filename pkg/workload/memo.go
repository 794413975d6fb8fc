// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import "k8s.io/utils/lru"

// memo has what a function gave for the last arguments. Each event of a workload
// asks for the same again. What it keeps is a matter of the argument alone, so
// that nothing depends on it but the time that it saves.
type memo[V any] struct{ last *lru.Cache }

func newMemo[V any]() memo[V] { return memo[V]{lru.New(1024)} }

// of is what to gives for a key. Who changes what it points to, copies it first.
func (m memo[V]) of(key string, to func() V) V {
	if v, ok := m.last.Get(key); ok {
		return v.(V)
	}
	v := to()
	m.last.Add(key, v)
	return v
}

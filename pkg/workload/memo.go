// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import "k8s.io/utils/lru"

// A memo keeps 1024 keys of 1 KiB at most. No value has more text than its key, so that
// all memos stay below 6 MiB, whatever others write. What Weir writes has 800 bytes at most.
const (
	mostKept   = 1024
	longestKey = 1 << 10
)

// memo has what a function gave for the last arguments. Each event of a workload
// asks for the same again. What it keeps is a matter of the argument alone, so
// that nothing depends on it but the time that it saves.
type memo[V any] struct{ last *lru.Cache }

func newMemo[V any]() memo[V] { return memo[V]{lru.New(mostKept)} }

// of is what to gives for a key. Who changes what it points to, copies it first. A longer
// key is not kept: who reaches the webhook port may send a different one each time.
func (m memo[V]) of(key string, to func() V) V {
	if len(key) > longestKey {
		return to()
	}
	if v, ok := m.last.Get(key); ok {
		return v.(V)
	}
	v := to()
	m.last.Add(key, v)
	return v
}

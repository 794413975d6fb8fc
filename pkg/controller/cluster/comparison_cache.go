// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ComparisonCache remembers what was found of objects that seldom change, so that each pass does not
// compare them anew. The zero value is ready, and nil remembers nothing.
type ComparisonCache struct {
	mu    sync.Mutex
	known map[string]comparison
}

type comparison struct{ version, says string }

// Get is what was found of an object, at the version that it has, by a question of that name.
func (v *ComparisonCache) Get(o client.Object, question string, find func() (string, error)) (string, error) {
	if v == nil {
		return find()
	}
	key, version := question+" "+o.GetName(), string(o.GetUID())+" "+o.GetResourceVersion()
	v.mu.Lock()
	known, ok := v.known[key]
	v.mu.Unlock()
	if ok && known.version == version {
		return known.says, nil
	}
	says, err := find()
	if err != nil {
		return "", err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil {
		v.known = map[string]comparison{}
	}
	v.known[key] = comparison{version, says}
	return says, nil
}

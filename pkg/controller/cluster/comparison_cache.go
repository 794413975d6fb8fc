// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ComparisonCache caches the results of comparisons of objects that seldom change, so that not every pass
// compares them. The zero value is ready to use. A nil cache stores nothing.
type ComparisonCache struct {
	mu    sync.Mutex
	known map[string]comparison
}

type comparison struct{ version, says string }

// Get returns the result of a comparison of the object's current version. It calls compare if the cache has
// no result. The name distinguishes several comparisons of one object.
func (v *ComparisonCache) Get(o client.Object, name string, compare func() (string, error)) (string, error) {
	if v == nil {
		return compare()
	}
	key, version := name+" "+o.GetName(), string(o.GetUID())+" "+o.GetResourceVersion()
	v.mu.Lock()
	known, ok := v.known[key]
	v.mu.Unlock()
	if ok && known.version == version {
		return known.says, nil
	}
	says, err := compare()
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

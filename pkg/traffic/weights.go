// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// Many routers divide requests by weights in a list of Services. The default weight is 1.

// splitStableWeight moves the canary percentage of the stable Service's weight to the canary
// Service. The canary entry is a copy of the stable entry, changed by lead. The weights of other
// Services keep their proportions.
func (p Params) splitStableWeight(all []map[string]any, stable func(entry map[string]any) bool, lead func(entry map[string]any)) []map[string]any {
	serving := 0
	for _, entry := range all {
		if intField(entry, "weight", 1) > 0 {
			serving++
		}
	}
	var next []map[string]any
	for _, entry := range all {
		parts := intField(entry, "weight", 1)
		if serving == 1 && parts > 0 {
			parts = 1
		}
		if !stable(entry) || parts == 0 {
			entry["weight"] = parts * 100
			next = append(next, entry)
			continue
		}
		canary := runtime.DeepCopyJSON(entry)
		lead(canary)
		entry["weight"], canary["weight"] = parts*(100-int64(*p.Weight)), parts*int64(*p.Weight)
		next = append(next, entry, canary)
	}
	return next
}

// scaleWeights scales weights down to a limit. Weights above 0 stay above 0. exact reports whether
// the proportions are kept exactly.
func scaleWeights(all []map[string]any, limit int64) (exact bool) {
	var most, common int64
	for _, entry := range all {
		w := intField(entry, "weight", 0)
		most, common = max(most, w), gcd(common, w)
	}
	if most <= limit {
		return true
	}
	most /= common
	for _, entry := range all {
		w := intField(entry, "weight", 0) / common
		if most > limit && w > 0 {
			w = max(1, w*limit/most)
		}
		entry["weight"] = w
	}
	return most <= limit
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// checkWeightsOnly returns a check for a kind that supports weights of Services, and nothing else.
func checkWeightsOnly(kind string) func(Params) error {
	return func(p Params) error {
		switch {
		case p.StableService == p.CanaryService:
			return fmt.Errorf("%s tells revisions apart by their Services; let the canary Service be made", kind)
		case len(p.Matches) > 0:
			return fmt.Errorf("matches: %s sends shares only", kind)
		case p.Headers != nil:
			return fmt.Errorf("requestHeaderModifier: %s rewrites no headers", kind)
		default:
			return nil
		}
	}
}

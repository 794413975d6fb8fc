// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"slices"
)

// addTraefikWeights adds the canary weight to a TraefikService. Traefik drops a whole
// TraefikService that names a Service without pods, unless the Service may be empty. So a Service
// with weight 0 is left out.
func addTraefikWeights(d Data, p Params) (Data, error) {
	weighted := childMap(d.Spec, "weighted")
	if len(p.stableRefs(weighted["services"])) == 0 {
		return Data{}, fmt.Errorf("spec.weighted.services: none is service %s with a weight above 0", p.StableService)
	}
	if p.Weight == nil {
		return d, nil
	}
	services := p.splitStableWeight(mapElements(weighted["services"]), p.isStableRef, func(s map[string]any) { s["name"] = p.CanaryService })
	weighted["services"] = toAnySlice(slices.DeleteFunc(services, func(s map[string]any) bool {
		return (p.isStableRef(s) || p.isServiceRef(s, p.CanaryService)) && s["weight"] == int64(0)
	}))
	return d, nil
}

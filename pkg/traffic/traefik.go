// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"slices"
)

// traefikService adds a share to a TraefikService. Traefik drops all of one that
// names a Service without pods, unless it may be empty; so a Service that gets no
// requests is not named.
func traefikService(d Data, p Params) (Data, error) {
	weighted := within(d.Spec, "weighted")
	if len(p.stableRefs(weighted["services"])) == 0 {
		return Data{}, fmt.Errorf("spec.weighted.services: none is service %s with a weight above 0", p.Stable)
	}
	if p.Weight == nil {
		return d, nil
	}
	services := p.weighted(objects(weighted["services"]), p.isStableRef, func(s map[string]any) { s["name"] = p.Canary })
	weighted["services"] = listed(slices.DeleteFunc(services, func(s map[string]any) bool {
		return (p.isStableRef(s) || p.leads(s, p.Canary)) && s["weight"] == int64(0)
	}))
	return d, nil
}

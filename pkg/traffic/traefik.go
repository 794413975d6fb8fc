// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// traefikService adds a share to a TraefikService. Traefik drops all of one that
// names a Service without pods, unless it is told to allow them; so who gets no
// requests is not named.
func traefikService(d Data, p Params) (Data, error) {
	weighted := within(d.Spec, "weighted")
	services := objects(weighted["services"])
	if !slices.ContainsFunc(services, func(s map[string]any) bool { return p.isStableRef(s) && whole(s, "weight", 1) > 0 }) {
		return Data{}, fmt.Errorf("spec.weighted.services: none is service %s with a weight above 0", p.Stable)
	}
	if p.Weight == nil {
		return d, nil
	}
	services = p.weighted(services, p.isStableRef, func(s map[string]any) map[string]any {
		canary := runtime.DeepCopyJSON(s)
		canary["name"] = p.Canary
		return canary
	})
	weighted["services"] = listed(slices.DeleteFunc(services, func(s map[string]any) bool {
		return (p.isStableRef(s) || p.leads(s, p.Canary)) && s["weight"] == int64(0)
	}))
	return d, nil
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Warnings returns the parts of a plan that its routers cannot implement. It examines the plan
// only: it does not read the routers and the users' scripts.
func Warnings(release *rollouts.Release, path string) []string {
	if release == nil || len(release.TrafficRoutings) == 0 {
		return nil
	}
	ref := release.TrafficRoutings[0]
	routers := RoutersFor(ref, path+".trafficRoutings[0]")
	var warnings []string
	for _, r := range routers {
		if _, err := findProvider(r); err != nil {
			warnings = append(warnings, fmt.Sprintf("%s in the ConfigMap %s", err, rollouts.ConfigurationName))
		}
	}
	for i := range release.Steps {
		if says := unsupportedReason(routers, ref.Service, planner.RouteOf(release.Steps[i])); says != "" {
			warnings = append(warnings, fmt.Sprintf("%s.steps[%d].%s; the step will not start unless a script can", path, i, says))
		}
	}
	return warnings
}

// unsupportedReason returns why no router supports the route of a step; empty if one does.
func unsupportedReason(routers []Router, service string, want planner.Route) string {
	says := ""
	for _, r := range routers {
		provider, err := findProvider(r)
		if err != nil {
			return ""
		}
		p := Params{Route: want, StableService: service, CanaryService: service + rollouts.CanarySuffix}
		if err = provider.CheckKind(p); err == nil {
			return ""
		}
		says = err.Error()
	}
	return says
}

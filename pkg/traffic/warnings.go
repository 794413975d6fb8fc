// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Warnings returns what of a plan cannot be routed, judged by the plan alone: the
// routers and the scripts of users are not read.
func Warnings(release *rollouts.Release, path string) []string {
	if release == nil || len(release.TrafficRoutings) == 0 {
		return nil
	}
	ref := release.TrafficRoutings[0]
	routers := Routers(ref, path+".trafficRoutings[0]")
	var warnings []string
	for _, r := range routers {
		if _, err := find(r); err != nil {
			warnings = append(warnings, fmt.Sprintf("%s in the ConfigMap %s", err, rollouts.ConfigurationName))
		}
	}
	for i := range release.Steps {
		if says := unsupported(routers, ref.Service, planner.RouteOf(release.Steps[i])); says != "" {
			warnings = append(warnings, fmt.Sprintf("%s.steps[%d].%s; the step will not start unless a script can", path, i, says))
		}
	}
	return warnings
}

// unsupported returns why no router can route as a step wants; empty if one can.
func unsupported(routers []Router, service string, want planner.Route) string {
	says := ""
	for _, r := range routers {
		provider, err := find(r)
		if err != nil {
			return ""
		}
		p := Params{Route: want, Stable: service, Canary: service + rollouts.CanarySuffix}
		if err = provider.Supports(p); err == nil {
			return ""
		}
		says = err.Error()
	}
	return says
}

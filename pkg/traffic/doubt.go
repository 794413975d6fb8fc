// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Doubts says what of a plan could not be routed, as far as the plan alone can
// tell: neither the routers nor the scripts of users are known here.
func Doubts(release *rollouts.Release, path string) []string {
	if release == nil || len(release.TrafficRoutings) == 0 {
		return nil
	}
	ref := release.TrafficRoutings[0]
	routers := Routers(ref, path+".trafficRoutings[0]")
	var doubts []string
	for _, r := range routers {
		if _, err := find(r); err != nil {
			doubts = append(doubts, fmt.Sprintf("%s in the ConfigMap %s", err, rollouts.ConfigurationName))
		}
	}
	for i := range release.Steps {
		if says := doubtful(routers, ref.Service, planner.RouteOf(release.Steps[i])); says != "" {
			doubts = append(doubts, fmt.Sprintf("%s.steps[%d].%s; the step will not start unless a script can", path, i, says))
		}
	}
	return doubts
}

// doubtful says why no router can do what a step wants.
func doubtful(routers []Router, service string, want planner.Route) string {
	says := ""
	for _, r := range routers {
		provider, err := find(r)
		if err != nil {
			return ""
		}
		p := Params{Route: want, Stable: service, Canary: service + rollouts.CanarySuffix}
		if err = provider.Doubt(p); err == nil {
			return ""
		}
		says = err.Error()
	}
	return says
}

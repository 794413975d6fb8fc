// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
)

// The AWS Load Balancer Controller reads from annotations of an Ingress where an ALB
// sends requests: a backend with a certain port means the action of its name.
const (
	albActions = albPrefix + "actions."
	albPort    = "use-annotation"

	// The limits of an ALB.
	maxALBWeight  = 999
	maxALBTargets = 5
)

// awsALB adds a share to every action that forwards to the stable Service.
func awsALB(d Data, p Params) (Data, error) {
	names, err := p.albActions(d.Spec)
	if err != nil {
		return Data{}, err
	}
	sends := false
	for _, name := range names {
		key := albActions + name
		action, ours, err := p.albAction(d.Annotations[key])
		if err != nil {
			return Data{}, fmt.Errorf("annotation %s: %w", key, err)
		}
		if ours {
			d.Annotations[key], sends = action, true
		}
	}
	if !sends {
		return Data{}, fmt.Errorf("spec.rules: none has a backend with the port %s whose action forwards to service %s", albPort, p.Stable)
	}
	return d, nil
}

// albActions are the actions that an Ingress leads to. A backend that leads to the
// stable Service without an action would have no share, so it is refused.
func (p Params) albActions(spec map[string]any) ([]string, error) {
	backends := []map[string]any{within(spec, "defaultBackend")}
	fields := []string{"spec.defaultBackend"}
	for i, rule := range objects(spec["rules"]) {
		for j, path := range objects(within(rule, "http")["paths"]) {
			backends = append(backends, within(path, "backend"))
			fields = append(fields, fmt.Sprintf("spec.rules[%d].http.paths[%d].backend", i, j))
		}
	}
	names := sets.New[string]()
	for i, backend := range backends {
		service := within(backend, "service")
		name := str(service, "name", "")
		switch {
		case str(within(service, "port"), "name", "") == albPort:
			names.Insert(name)
		case name == p.Stable:
			return nil, fmt.Errorf("%s: it leads to service %s without an action; give it the port %s, and the Ingress an annotation %s<name>", fields[i], name, albPort, albActions)
		}
	}
	return sets.List(names), nil
}

// albAction is an action with the share. ours reports whether it forwards to the
// stable Service.
func (p Params) albAction(text string) (with string, ours bool, err error) {
	if text == "" {
		return "", false, nil
	}
	var action map[string]any
	if err := json.Unmarshal([]byte(text), &action); err != nil {
		return "", false, err
	}
	spelled(action, "forwardConfig")
	forward := within(action, "forwardConfig")
	spelled(forward, "targetGroups")
	groups := objects(forward["targetGroups"])
	for _, group := range groups {
		spelled(group, "serviceName", "weight")
		ours = ours || p.isStableGroup(group) && whole(group, "weight", 1) > 0
	}
	if !ours || p.Weight == nil {
		return text, ours, nil
	}
	groups = p.weighted(groups, p.isStableGroup, func(group map[string]any) { group["serviceName"] = p.Canary })
	switch {
	case len(groups) > maxALBTargets:
		return "", true, fmt.Errorf("with the canary Service it would have %d target groups, and there can be %d", len(groups), maxALBTargets)
	case !reduce(groups, maxALBWeight):
		return "", true, errors.New("the share cannot be told in weights up to 999; give its target groups smaller weights")
	}
	forward["targetGroups"] = listed(groups)
	data, err := json.Marshal(action)
	return string(data), true, err
}

func (p Params) isStableGroup(group map[string]any) bool { return group["serviceName"] == p.Stable }

// spelled spells keys as documented: the controller ignores their case.
func spelled(m map[string]any, keys ...string) {
	for _, key := range keys {
		for _, k := range keysOf(m) {
			if k != key && strings.EqualFold(k, key) {
				m[key] = m[k]
				delete(m, k)
			}
		}
	}
}

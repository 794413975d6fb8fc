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

// The AWS Load Balancer Controller reads the actions of an ALB from annotations of the Ingress. An
// Ingress backend whose port is named use-annotation refers to the action with the name of its
// Service.
const (
	albActions = albPrefix + "actions."
	albPort    = "use-annotation"

	// The limits of an ALB.
	maxALBWeight  = 999
	maxALBTargets = 5
)

// addALBRoute adds the canary weight to every action that forwards to the stable Service.
func addALBRoute(d Data, p Params) (Data, error) {
	names, err := p.albActionNames(d.Spec)
	if err != nil {
		return Data{}, err
	}
	found := false
	for _, name := range names {
		key := albActions + name
		action, ours, err := p.addALBShare(d.Annotations[key])
		if err != nil {
			return Data{}, fmt.Errorf("annotation %s: %w", key, err)
		}
		if ours {
			d.Annotations[key], found = action, true
		}
	}
	if !found {
		return Data{}, fmt.Errorf("spec.rules: none has a backend with the port %s whose action forwards to service %s", albPort, p.StableService)
	}
	return d, nil
}

// albActionNames returns the names of the actions that backends of an Ingress refer to. A backend
// that sends requests to the stable Service without an action cannot have a weight, so it is an
// error.
func (p Params) albActionNames(spec map[string]any) ([]string, error) {
	backends := []map[string]any{childMap(spec, "defaultBackend")}
	fields := []string{"spec.defaultBackend"}
	for i, rule := range mapElements(spec["rules"]) {
		for j, path := range mapElements(childMap(rule, "http")["paths"]) {
			backends = append(backends, childMap(path, "backend"))
			fields = append(fields, fmt.Sprintf("spec.rules[%d].http.paths[%d].backend", i, j))
		}
	}
	names := sets.New[string]()
	for i, backend := range backends {
		service := childMap(backend, "service")
		name := stringField(service, "name", "")
		switch {
		case stringField(childMap(service, "port"), "name", "") == albPort:
			names.Insert(name)
		case name == p.StableService:
			return nil, fmt.Errorf("%s: it leads to service %s without an action; give it the port %s, and the Ingress an annotation %s<name>", fields[i], name, albPort, albActions)
		}
	}
	return sets.List(names), nil
}

// addALBShare returns an action with the canary weight. forwardsToStable reports whether the action
// forwards to the stable Service.
func (p Params) addALBShare(text string) (result string, forwardsToStable bool, err error) {
	if text == "" {
		return "", false, nil
	}
	var action map[string]any
	if err := json.Unmarshal([]byte(text), &action); err != nil {
		return "", false, err
	}
	normalizeKeys(action, "forwardConfig")
	forward := childMap(action, "forwardConfig")
	normalizeKeys(forward, "targetGroups")
	groups := mapElements(forward["targetGroups"])
	for _, group := range groups {
		normalizeKeys(group, "serviceName", "weight")
		forwardsToStable = forwardsToStable || p.isStableGroup(group) && intField(group, "weight", 1) > 0
	}
	if !forwardsToStable || p.Weight == nil {
		return text, forwardsToStable, nil
	}
	groups = p.splitStableWeight(groups, p.isStableGroup, func(group map[string]any) { group["serviceName"] = p.CanaryService })
	switch {
	case len(groups) > maxALBTargets:
		return "", true, fmt.Errorf("with the canary Service it would have %d target groups, and there can be %d", len(groups), maxALBTargets)
	case !scaleWeights(groups, maxALBWeight):
		return "", true, errors.New("the share cannot be told in weights up to 999; give its target groups smaller weights")
	}
	forward["targetGroups"] = toAnySlice(groups)
	data, err := json.Marshal(action)
	return string(data), true, err
}

func (p Params) isStableGroup(group map[string]any) bool {
	return group["serviceName"] == p.StableService
}

// normalizeKeys replaces keys by their documented spelling, because the controller ignores their
// case.
func normalizeKeys(m map[string]any, keys ...string) {
	for _, key := range keys {
		for _, k := range sortedKeys(m) {
			if k != key && strings.EqualFold(k, key) {
				m[key] = m[k]
				delete(m, k)
			}
		}
	}
}

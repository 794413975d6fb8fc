// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// The ways of Istio to match a text, by those of a step.
var (
	istioPaths  = map[string]string{pathPrefix: "prefix", pathExact: "exact", pathPattern: "regex"}
	istioValues = map[string]string{matchExact: "exact", matchPattern: "regex"}
)

// joinVirtual narrows a match of a VirtualService; nil if nothing can meet both.
func joinVirtual(own map[string]any, m rollouts.RouteMatch) (map[string]any, error) {
	if m.Path == nil && len(m.Headers) == 0 && len(m.QueryParams) == 0 {
		return nil, errNoMatch
	}
	joined := runtime.DeepCopyJSON(own)
	if m.Path != nil {
		want := pathOfStep(m.Path)
		both, met, err := joinURI(within(own, "uri"), istioPaths[want.kind], want.value)
		if err != nil || !met {
			return nil, err
		}
		joined["uri"] = both
	}
	for _, part := range []struct {
		key  string
		more []rollouts.ValueMatch
	}{{"headers", m.Headers}, {"queryParams", m.QueryParams}} {
		met, err := joinNamed(joined, part.key, part.more)
		if err != nil || !met {
			return nil, err
		}
	}
	return joined, nil
}

// joinURI goes by letters: a prefix of Istio does not end at a slash.
func joinURI(own map[string]any, kind, value string) (map[string]any, bool, error) {
	want := map[string]any{kind: value}
	if len(own) == 0 || equality.Semantic.DeepEqual(own, want) || own["prefix"] == "/" {
		return want, true, nil
	}
	if kind == "prefix" && value == "/" {
		return own, true, nil
	}
	if kind == "regex" || own["regex"] != nil {
		return nil, false, fmt.Errorf(".path: %s cannot be matched together with what the rule matches already", value)
	}
	joined, met := joinLetters(own, want, kind, value)
	return joined, met, nil
}

// joinLetters takes the longer one of two paths where it begins as the other does.
func joinLetters(own, want map[string]any, kind, value string) (joined map[string]any, met bool) {
	has, exact := str(own, "prefix", ""), str(own, "exact", "")
	switch {
	case exact != "":
		return own, kind == "prefix" && strings.HasPrefix(exact, value)
	case strings.HasPrefix(value, has):
		return want, true
	default:
		return own, kind == "prefix" && strings.HasPrefix(has, value)
	}
}

// joinNamed adds headers or parameters to a match, which has each name once.
// Istio knows headers by their names in lower case.
func joinNamed(match map[string]any, key string, more []rollouts.ValueMatch) (met bool, err error) {
	if len(more) == 0 {
		return true, nil
	}
	all := within(match, key)
	if all == nil {
		all = map[string]any{}
	}
	for i, v := range more {
		name, kind := v.Name, matchExact
		if key == "headers" {
			name = strings.ToLower(name)
		}
		if v.Type != nil {
			kind = *v.Type
		}
		want := map[string]any{istioValues[kind]: v.Value}
		was, has := all[name]
		switch {
		case !has || equality.Semantic.DeepEqual(was, want):
			all[name] = want
		case want["exact"] != nil && within(all, name)["exact"] != nil:
			return false, nil
		default:
			return false, fmt.Errorf(".%s[%d]: the rule matches %s already; one name cannot be matched twice", key, i, v.Name)
		}
	}
	match[key] = all
	return true, nil
}

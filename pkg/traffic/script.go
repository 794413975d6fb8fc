// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/lua"
)

// Scripts of users are given the same objects as in OpenKruise, and return the
// same. Unlike there they always see the owner's original, also on an Ingress,
// and annotations and labels are tables even where there are none.

// scripted is the provider that a script makes of a router.
func scripted(r Router) Provider {
	says := func(err error) error {
		return fmt.Errorf("the script %s of %s: %w", r.ScriptKey(), r.ScriptFrom, err)
	}
	if r.Ingress() {
		return canaryIngress{func(annotations map[string]string, p Params) (map[string]string, error) {
			next, err := runIngress(r.Script, annotations, p)
			if err != nil {
				return nil, says(err)
			}
			return next, nil
		}}
	}
	edit := func(original Data, p Params) (Data, error) {
		next, err := runCustom(r.Script, original, p)
		if err != nil {
			return Data{}, says(err)
		}
		return next, nil
	}
	return inPlace{edit: edit, script: sum(r.Script)}
}

// unable is a provider that can take back what was routed, and no more.
func unable(r Router, why error) Provider {
	if r.Ingress() {
		return canaryIngress{func(map[string]string, Params) (map[string]string, error) { return nil, why }}
	}
	return inPlace{edit: func(Data, Params) (Data, error) { return Data{}, why }}
}

// sum tells scripts apart.
func sum(script string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(script)) // a hash takes all
	return fmt.Sprintf("%016x", h.Sum64())
}

// noShare is the weight of a step that names none.
const noShare = -1

func runIngress(script string, annotations map[string]string, p Params) (map[string]string, error) {
	weight := int32(noShare)
	if p.Weight != nil {
		weight = *p.Weight
	}
	obj := map[string]any{"annotations": anyOf(annotations), "weight": itoa(weight), "canaryService": p.Canary, "stableService": p.Stable}
	addRoute(obj, p)
	out, err := lua.Run(script, obj)
	if err != nil {
		return nil, err
	}
	return stringsOf(out, "annotations")
}

func runCustom(script string, original Data, p Params) (Data, error) {
	weight := int64(noShare)
	if p.Weight != nil {
		weight = int64(*p.Weight)
	}
	spec := original.Spec
	if spec == nil {
		spec = map[string]any{}
	}
	obj := map[string]any{
		"data":         map[string]any{"spec": spec, "labels": anyOf(original.Labels), "annotations": anyOf(original.Annotations)},
		"canaryWeight": weight, "stableWeight": 100 - weight, "canaryService": p.Canary, "stableService": p.Stable,
	}
	addRoute(obj, p)
	out, err := lua.Run(script, obj)
	if err != nil {
		return Data{}, err
	}
	return dataFrom(out, original)
}

// dataFrom reads what a script has made of an object.
func dataFrom(out map[string]any, original Data) (Data, error) {
	for key := range out {
		if key != "spec" && key != "labels" && key != "annotations" {
			return Data{}, fmt.Errorf("it returns %q; it must return obj.data, with spec, labels and annotations", key)
		}
	}
	spec, ok := out["spec"].(map[string]any)
	if !ok && (out["spec"] != nil || len(original.Spec) > 0) {
		return Data{}, errors.New("it returns no spec; it must return obj.data")
	}
	labels, err := textsOf(out, "labels")
	if err != nil {
		return Data{}, err
	}
	annotations, err := textsOf(out, "annotations")
	if err != nil {
		return Data{}, err
	}
	return Data{Spec: spec, Labels: labels, Annotations: annotations}, nil
}

// textsOf reads labels or annotations, which a script may leave out.
func textsOf(out map[string]any, key string) (map[string]string, error) {
	m, ok := out[key].(map[string]any)
	if !ok && out[key] != nil {
		return nil, fmt.Errorf("its %s have no names", key)
	}
	return stringsOf(m, key)
}

// addRoute adds what is wanted of requests.
func addRoute(obj map[string]any, p Params) {
	if len(p.Matches) > 0 {
		matches := make([]any, len(p.Matches))
		for i, m := range p.Matches {
			matches[i] = matchOf(m)
		}
		obj["matches"] = matches
	}
	if h := p.Headers; h != nil {
		modifier := map[string]any{}
		addHeaders(modifier, "set", h.Set)
		addHeaders(modifier, "add", h.Add)
		if len(h.Remove) > 0 {
			remove := make([]any, len(h.Remove))
			for i, name := range h.Remove {
				remove[i] = name
			}
			modifier["remove"] = remove
		}
		obj["requestHeaderModifier"] = modifier
	}
}

func addHeaders(to map[string]any, key string, headers []rollouts.Header) {
	if len(headers) == 0 {
		return
	}
	list := make([]any, len(headers))
	for i, h := range headers {
		list[i] = map[string]any{"name": h.Name, "value": h.Value}
	}
	to[key] = list
}

// matchOf names the type of each part: scripts ask for it.
func matchOf(m rollouts.RouteMatch) map[string]any {
	out := map[string]any{}
	if m.Path != nil {
		value := "/"
		if m.Path.Value != nil {
			value = *m.Path.Value
		}
		out["path"] = map[string]any{"type": or(m.Path.Type, "PathPrefix"), "value": value}
	}
	for key, list := range map[string][]rollouts.ValueMatch{"headers": m.Headers, "queryParams": m.QueryParams} {
		var values []any
		for _, v := range list {
			values = append(values, map[string]any{"type": or(v.Type, matchExact), "name": v.Name, "value": v.Value})
		}
		if len(values) > 0 {
			out[key] = values
		}
	}
	return out
}

func or(s *string, other string) string {
	if s == nil {
		return other
	}
	return *s
}

func anyOf(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// stringsOf are annotations or labels, less those that are kept here.
func stringsOf(m map[string]any, what string) (map[string]string, error) {
	out := make(map[string]string, len(m))
	for k, v := range m {
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s[%q] must be a text, and is %v", what, k, v)
		}
		out[k] = s
	}
	forget(out)
	return out, nil
}

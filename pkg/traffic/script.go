// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"

	"k8s.io/utils/ptr"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/lua"
)

// Scripts of users are given the same objects as in OpenKruise, and return the
// same. Unlike there they always see the owner's original, also on an Ingress,
// and annotations and labels are tables even where there are none.

// scripted is the provider that a script makes of a router.
func scripted(r Router) Provider {
	if r.Ingress() {
		return canaryIngress{running(r, runIngress)}
	}
	return inPlace{edit: running(r, runCustom), script: sum(r.Script)}
}

// running runs the script of a router, and names it in errors.
func running[T any](r Router, run func(script string, original T, p Params) (T, error)) func(T, Params) (T, error) {
	return func(original T, p Params) (T, error) {
		next, err := run(r.Script, original, p)
		if err != nil {
			err = fmt.Errorf("the script %s of %s: %w", r.ScriptKey(), r.ScriptFrom, err)
		}
		return next, err
	}
}

// unable is a provider that can only restore.
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
	out, err := runWith(script, map[string]any{"annotations": anyOf(annotations), "weight": itoa(ptr.Deref(p.Weight, noShare))}, p)
	if err != nil {
		return nil, err
	}
	return stringsOf(out, "annotations")
}

func runCustom(script string, original Data, p Params) (Data, error) {
	weight := int64(ptr.Deref(p.Weight, noShare))
	out, err := runWith(script, map[string]any{
		"data":         map[string]any{"spec": original.Spec, "labels": anyOf(original.Labels), "annotations": anyOf(original.Annotations)},
		"canaryWeight": weight, "stableWeight": 100 - weight,
	}, p)
	if err != nil {
		return Data{}, err
	}
	return dataFrom(out, original)
}

// runWith gives a script an object to which it adds what is wanted of requests.
func runWith(script string, obj map[string]any, p Params) (map[string]any, error) {
	obj["canaryService"], obj["stableService"] = p.Canary, p.Stable
	var matches []any
	for _, m := range p.Matches {
		matches = append(matches, matchOf(m))
	}
	if len(matches) > 0 {
		obj["matches"] = matches
	}
	if p.Headers != nil {
		obj["requestHeaderModifier"] = modifier(p.Headers)
	}
	return lua.Run(script, obj)
}

// matchOf names the type of each part: scripts ask for it.
func matchOf(m rollouts.RouteMatch) map[string]any {
	out := map[string]any{}
	if m.Path != nil {
		out["path"] = pathOfStep(m.Path).match()
	}
	for key, list := range map[string][]rollouts.ValueMatch{"headers": m.Headers, "queryParams": m.QueryParams} {
		var values []any
		for _, v := range list {
			values = append(values, valueOf(v))
		}
		if len(values) > 0 {
			out[key] = values
		}
	}
	return out
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
	annotations, errAnnotations := textsOf(out, "annotations")
	return Data{Spec: spec, Labels: labels, Annotations: annotations}, cmp.Or(err, errAnnotations)
}

// textsOf reads labels or annotations, which a script may leave out.
func textsOf(out map[string]any, key string) (map[string]string, error) {
	m, ok := out[key].(map[string]any)
	if !ok && out[key] != nil {
		return nil, fmt.Errorf("its %s have no names", key)
	}
	return stringsOf(m, key)
}

func anyOf(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// stringsOf reads annotations or labels, less those that belong to the record.
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

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

// Users' scripts have the same input and output as in OpenKruise, with two differences: they always
// get the owner's original, also for an Ingress, and annotations and labels are tables even if they
// are empty.

// scriptProvider returns a provider that routes with the script of a router.
func scriptProvider(r Router) Provider {
	if r.IsIngress() {
		return canaryIngress{withScript(r, runIngressScript)}
	}
	return inPlace{edit: withScript(r, runObjectScript), scriptHash: hashScript(r.Script)}
}

// withScript returns a function that runs the script of a router. Its errors name the script.
func withScript[T any](r Router, run func(script string, original T, p Params) (T, error)) func(T, Params) (T, error) {
	return func(original T, p Params) (T, error) {
		next, err := run(r.Script, original, p)
		if err != nil {
			err = fmt.Errorf("the script %s of %s: %w", r.ScriptKey(), r.ScriptFrom, err)
		}
		return next, err
	}
}

// restoreOnlyProvider returns a provider that can only restore.
func restoreOnlyProvider(r Router, why error) Provider {
	if r.IsIngress() {
		return canaryIngress{func(map[string]string, Params) (map[string]string, error) { return nil, why }}
	}
	return inPlace{edit: func(Data, Params) (Data, error) { return Data{}, why }}
}

// hashScript returns a hash that distinguishes scripts.
func hashScript(script string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(script)) // a hash takes all
	return fmt.Sprintf("%016x", h.Sum64())
}

// noWeight is the weight that scripts get for a step without a weight.
const noWeight = -1

func runIngressScript(script string, annotations map[string]string, p Params) (map[string]string, error) {
	out, err := runScript(script, map[string]any{"annotations": toAnyMap(annotations), "weight": itoa(ptr.Deref(p.Weight, noWeight))}, p)
	if err != nil {
		return nil, err
	}
	return toStringMap(out, "annotations")
}

func runObjectScript(script string, original Data, p Params) (Data, error) {
	weight := int64(ptr.Deref(p.Weight, noWeight))
	out, err := runScript(script, map[string]any{
		"data":         map[string]any{"spec": original.Spec, "labels": toAnyMap(original.Labels), "annotations": toAnyMap(original.Annotations)},
		"canaryWeight": weight, "stableWeight": 100 - weight,
	}, p)
	if err != nil {
		return Data{}, err
	}
	return dataFromScript(out, original)
}

// runScript runs a script with an object, to which it adds the Services, matches and headers.
func runScript(script string, obj map[string]any, p Params) (map[string]any, error) {
	obj["canaryService"], obj["stableService"] = p.CanaryService, p.StableService
	var matches []any
	for _, m := range p.Matches {
		matches = append(matches, matchForScript(m))
	}
	if len(matches) > 0 {
		obj["matches"] = matches
	}
	if p.Headers != nil {
		obj["requestHeaderModifier"] = headerModifierMap(p.Headers)
	}
	return lua.Run(script, obj)
}

// matchForScript returns a match in the format of scripts. It sets the type of every part, because
// scripts read the type.
func matchForScript(m rollouts.RouteMatch) map[string]any {
	out := map[string]any{}
	if m.Path != nil {
		out["path"] = stepPath(m.Path).toMap()
	}
	for key, list := range map[string][]rollouts.ValueMatch{"headers": m.Headers, "queryParams": m.QueryParams} {
		var values []any
		for _, v := range list {
			values = append(values, valueMatchMap(v))
		}
		if len(values) > 0 {
			out[key] = values
		}
	}
	return out
}

// dataFromScript returns the data that a script returned.
func dataFromScript(out map[string]any, original Data) (Data, error) {
	for key := range out {
		if key != "spec" && key != "labels" && key != "annotations" {
			return Data{}, fmt.Errorf("it returns %q; it must return obj.data, with spec, labels and annotations", key)
		}
	}
	spec, ok := out["spec"].(map[string]any)
	if !ok && (out["spec"] != nil || len(original.Spec) > 0) {
		return Data{}, errors.New("it returns no spec; it must return obj.data")
	}
	labels, err := optionalStrings(out, "labels")
	annotations, errAnnotations := optionalStrings(out, "annotations")
	return Data{Spec: spec, Labels: labels, Annotations: annotations}, cmp.Or(err, errAnnotations)
}

// optionalStrings reads labels or annotations, which a script may leave out.
func optionalStrings(out map[string]any, key string) (map[string]string, error) {
	m, ok := out[key].(map[string]any)
	if !ok && out[key] != nil {
		return nil, fmt.Errorf("its %s have no names", key)
	}
	return toStringMap(m, key)
}

func toAnyMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// toStringMap reads annotations or labels, and removes Weir's own annotations.
func toStringMap(m map[string]any, what string) (map[string]string, error) {
	out := make(map[string]string, len(m))
	for k, v := range m {
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("%s[%q] must be a text, and is %v", what, k, v)
		}
		out[k] = s
	}
	removeRouteRecord(out)
	return out, nil
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// MaxChanges is the maximum number of changes in an answer.
const MaxChanges = 50

// maxValue limits the length of a value, in characters.
const maxValue = 1024

// storedTemplate returns the pod template in a stored workload; nil if there is none.
func storedTemplate(data rollouts.RawJSON) map[string]any {
	var spec struct {
		Template map[string]any `json:"template"`
	}
	if json.Unmarshal(data.Raw, &spec) != nil {
		return nil
	}
	return spec.Template
}

// ReleasedTemplate returns the pod template of a release; nil if it is not stored.
func ReleasedTemplate(h *rollouts.RolloutHistory) map[string]any {
	if h == nil || h.Spec.Workload == nil {
		return nil
	}
	return storedTemplate(h.Spec.Workload.Data)
}

// ImageChanges returns the changes of images among the changes.
func ImageChanges(changes []rollouts.Change) []rollouts.ImageChange {
	var out []rollouts.ImageChange
	for _, c := range changes {
		name, ok := strings.CutPrefix(c.Path, "spec.containers[")
		name, image := strings.CutSuffix(name, "].image")
		if ok && image {
			out = append(out, rollouts.ImageChange{Container: name, From: decodeString(c.From), To: decodeString(c.To)})
		}
	}
	return out
}

// decodeString returns the string of a value in JSON.
func decodeString(value string) string {
	var s string
	if json.Unmarshal([]byte(value), &s) != nil {
		return ""
	}
	return s
}

// TemplateChanges returns the fields of the pod template that a release changed, and the number of
// further changes. It returns none if one of the templates is not stored.
func TemplateChanges(h *rollouts.RolloutHistory) (changes []rollouts.Change, more int) {
	if h.Spec.Stable == nil {
		return nil, 0
	}
	from, to := storedTemplate(h.Spec.Stable.Data), ReleasedTemplate(h)
	if from == nil || to == nil {
		return nil, 0
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(corev1.PodTemplateSpec{})
	if err != nil {
		return nil, 0
	}
	d := templateDiff{}
	removeControllerFields(from)
	removeControllerFields(to)
	d.compareObjects("", from, to, schema)
	n := min(len(d.changes), MaxChanges)
	return d.changes[:n], len(d.changes) - n
}

// templateDiff collects changes.
type templateDiff struct{ changes []rollouts.Change }

func (d *templateDiff) addChange(path string, from, to any) {
	if !equality.Semantic.DeepEqual(from, to) {
		d.changes = append(d.changes, rollouts.Change{Path: path, From: jsonText(from), To: jsonText(to)})
	}
}

// jsonText returns a value as JSON.
func jsonText(v any) string {
	if v == nil {
		return ""
	}
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return rollouts.Clean(string(data), maxValue)
}

// compareObjects compares two objects. schema is nil if the fields are unknown.
func (d *templateDiff) compareObjects(path string, from, to map[string]any, schema strategicpatch.LookupPatchMeta) {
	keys := maps.Clone(from)
	maps.Copy(keys, to)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		at := strings.TrimPrefix(path+"."+key, ".")
		if strings.ContainsAny(key, "./") {
			at = path + "[" + key + "]"
		}
		d.compareValues(at, key, from[key], to[key], schema)
	}
}

func (d *templateDiff) compareValues(path, key string, from, to any, schema strategicpatch.LookupPatchMeta) {
	a, ok := from.(map[string]any)
	if b, both := to.(map[string]any); ok && both {
		d.compareObjects(path, a, b, fieldSchema(schema, key))
		return
	}
	as, isList := from.([]any)
	bs, both := to.([]any)
	if isList && both && schema != nil {
		if items, meta, err := schema.LookupPatchMetadataForSlice(key); err == nil && meta.GetPatchMergeKey() != "" && hasUniqueKeys(as, meta.GetPatchMergeKey()) && hasUniqueKeys(bs, meta.GetPatchMergeKey()) {
			d.compareLists(path, meta.GetPatchMergeKey(), as, bs, items)
			return
		}
	}
	d.addChange(path, from, to)
}

func fieldSchema(schema strategicpatch.LookupPatchMeta, key string) strategicpatch.LookupPatchMeta {
	if schema == nil {
		return nil
	}
	inner, _, err := schema.LookupPatchMetadataForStruct(key)
	if err != nil {
		return nil
	}
	return inner
}

// hasUniqueKeys reports whether the items of a list have a key, and no two items have the same one.
func hasUniqueKeys(list []any, key string) bool {
	seen := map[string]bool{}
	for _, item := range list {
		o, ok := item.(map[string]any)
		if !ok || o[key] == nil || seen[fmt.Sprint(o[key])] {
			return false
		}
		seen[fmt.Sprint(o[key])] = true
	}
	return true
}

// compareLists compares two lists by the key of their items.
func (d *templateDiff) compareLists(path, key string, from, to []any, schema strategicpatch.LookupPatchMeta) {
	find := func(list []any, name string) any {
		for _, item := range list {
			if fmt.Sprint(item.(map[string]any)[key]) == name {
				return item
			}
		}
		return nil
	}
	var names []string
	for _, item := range slices.Concat(from, to) {
		if name := fmt.Sprint(item.(map[string]any)[key]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		at := path + "[" + name + "]"
		a, b := find(from, name), find(to, name)
		if a == nil || b == nil {
			d.addChange(at, a, b)
			continue
		}
		d.compareObjects(at, a.(map[string]any), b.(map[string]any), schema)
	}
}

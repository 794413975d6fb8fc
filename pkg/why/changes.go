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

// MaxChanges is how many changes an answer has.
const MaxChanges = 50

// maxValue bounds a value of a change, in characters.
const maxValue = 1024

// template is the one of a workload on record; nil if there is none.
func template(data rollouts.RawJSON) map[string]any {
	var spec struct {
		Template map[string]any `json:"template"`
	}
	if json.Unmarshal(data.Raw, &spec) != nil {
		return nil
	}
	return spec.Template
}

// Template is the one that a release has brought; nil if it is not on record.
func Template(h *rollouts.RolloutHistory) map[string]any {
	if h == nil || h.Spec.Workload == nil {
		return nil
	}
	return template(h.Spec.Workload.Data)
}

// Images are those among changes.
func Images(changes []rollouts.Change) []rollouts.ImageChange {
	var out []rollouts.ImageChange
	for _, c := range changes {
		name, ok := strings.CutPrefix(c.Path, "spec.containers[")
		name, image := strings.CutSuffix(name, "].image")
		if ok && image {
			out = append(out, rollouts.ImageChange{Container: name, From: text(c.From), To: text(c.To)})
		}
	}
	return out
}

// text is a string that a change has as JSON.
func text(value string) string {
	var s string
	if json.Unmarshal([]byte(value), &s) != nil {
		return ""
	}
	return s
}

// Changes are the fields of the template that a release changed, and how many there are
// besides. There are none where one of the templates is not on record.
func Changes(h *rollouts.RolloutHistory) (changes []rollouts.Change, more int) {
	if h.Spec.Stable == nil {
		return nil, 0
	}
	from, to := template(h.Spec.Stable.Data), Template(h)
	if from == nil || to == nil {
		return nil, 0
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(corev1.PodTemplateSpec{})
	if err != nil {
		return nil, 0
	}
	d := differ{}
	// The native controller adds the label to the template of a revision.
	for _, t := range []map[string]any{from, to} {
		if metadata, ok := t["metadata"].(map[string]any); ok {
			delete(metadata, "creationTimestamp")
			if labels, ok := metadata["labels"].(map[string]any); ok {
				delete(labels, "pod-template-hash")
			}
		}
	}
	d.objects("", from, to, schema)
	n := min(len(d.changes), MaxChanges)
	return d.changes[:n], len(d.changes) - n
}

// differ collects changes.
type differ struct{ changes []rollouts.Change }

func (d *differ) add(path string, from, to any) {
	if !equality.Semantic.DeepEqual(from, to) {
		d.changes = append(d.changes, rollouts.Change{Path: path, From: short(from), To: short(to)})
	}
}

// short is a value as JSON.
func short(v any) string {
	if v == nil {
		return ""
	}
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return rollouts.Clean(string(data), maxValue)
}

// objects compares two objects; schema is nil where it knows nothing of them.
func (d *differ) objects(path string, from, to map[string]any, schema strategicpatch.LookupPatchMeta) {
	keys := maps.Clone(from)
	maps.Copy(keys, to)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		at := strings.TrimPrefix(path+"."+key, ".")
		if strings.ContainsAny(key, "./") {
			at = path + "[" + key + "]"
		}
		d.values(at, key, from[key], to[key], schema)
	}
}

func (d *differ) values(path, key string, from, to any, schema strategicpatch.LookupPatchMeta) {
	a, ok := from.(map[string]any)
	if b, both := to.(map[string]any); ok && both {
		d.objects(path, a, b, under(schema, key))
		return
	}
	as, isList := from.([]any)
	bs, both := to.([]any)
	if isList && both && schema != nil {
		if items, meta, err := schema.LookupPatchMetadataForSlice(key); err == nil && meta.GetPatchMergeKey() != "" && keyed(as, meta.GetPatchMergeKey()) && keyed(bs, meta.GetPatchMergeKey()) {
			d.lists(path, meta.GetPatchMergeKey(), as, bs, items)
			return
		}
	}
	d.add(path, from, to)
}

func under(schema strategicpatch.LookupPatchMeta, key string) strategicpatch.LookupPatchMeta {
	if schema == nil {
		return nil
	}
	inner, _, err := schema.LookupPatchMetadataForStruct(key)
	if err != nil {
		return nil
	}
	return inner
}

// keyed reports whether each item of a list has a key of its own.
func keyed(list []any, key string) bool {
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

// lists compares two lists by the key of their items.
func (d *differ) lists(path, key string, from, to []any, schema strategicpatch.LookupPatchMeta) {
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
			d.add(at, a, b)
			continue
		}
		d.objects(at, a.(map[string]any), b.(map[string]any), schema)
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// The original of a router that is routed in place is kept on it, where whoever may
// write the router may write it. The store has a digest of each original since before
// it was put there. An original without a digest is not believed: then it is what the
// router says now, with every way to the update revision leading to stable.

// originalOf is the original of a router. routed reports whether a route is on it.
func (e inPlace) originalOf(o Objects, r Router, obj *unstructured.Unstructured) (original Data, routed bool, err error) {
	text, kept := obj.GetAnnotations()[rollouts.AnnotationOriginalSpec]
	if kept && o.believes(r, obj) {
		return original, true, json.Unmarshal([]byte(text), &original)
	}
	original, err = dataOf(obj)
	if err != nil {
		return Data{}, false, err
	}
	p := o.params(planner.Route{})
	switch {
	case kept:
	case slices.Contains(o.Originals, digestOf(r, original)), o.untouched():
		return original, false, nil
	}
	stripped := false
	if e.strip != nil && !o.Shared {
		original, stripped = e.strip(original, p)
	}
	original, found := e.toStable(original, p)
	return original, kept || stripped || found, nil
}

// believes reports whether the original on a router can be read and was put there for
// the owner's release. Where the store has no digests, as in older versions, every
// original that can be read is believed.
func (o Objects) believes(r Router, obj metav1.Object) bool {
	text, kept := obj.GetAnnotations()[rollouts.AnnotationOriginalSpec]
	var original Data
	if !kept || json.Unmarshal([]byte(text), &original) != nil || len(original.Spec) == 0 {
		return false
	}
	return o.Originals == nil || slices.Contains(o.Originals, digest(r, text))
}

// digest identifies an original in the store.
func digest(r Router, text string) string {
	sum := sha256.Sum256([]byte(r.Kind.String() + "/" + r.Name + "\n" + text))
	return hex.EncodeToString(sum[:16])
}

func digestOf(r Router, original Data) string {
	text, _ := json.Marshal(original) // it was read from JSON
	return digest(r, string(text))
}

// Originals are digests of the originals on the routers, and of those that the next
// route would put there.
func Originals(o Objects) []string {
	all := []string{}
	for _, r := range o.Routers {
		provider, obj, ok := editing(r)
		if !ok {
			continue
		}
		if o.believes(r, obj) {
			all = append(all, digest(r, obj.GetAnnotations()[rollouts.AnnotationOriginalSpec]))
		}
		if original, _, err := provider.owners(o, r, obj); err == nil {
			all = append(all, digestOf(r, original))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// untouched reports whether no router was ever changed: then a way to the update
// revision is the owner's own.
func (o Objects) untouched() bool {
	return len(o.Originals) == 0 && (o.Shared || o.CanaryService == nil || !o.made(o.CanaryService))
}

// Doubted names a router whose original is not believed; empty if there is none.
func Doubted(o Objects) string {
	for _, r := range o.Routers {
		provider, obj, ok := editing(r)
		if !ok || o.believes(r, obj) {
			continue
		}
		if _, routed, err := provider.originalOf(o, r, obj); routed && err == nil {
			return r.path()
		}
	}
	return ""
}

// editing returns the provider and the object of a router. ok reports whether it is
// routed in place, and exists.
func editing(r Router) (e inPlace, obj *unstructured.Unstructured, ok bool) {
	provider, _ := find(r)
	if e, ok = provider.(inPlace); !ok {
		return e, nil, false
	}
	obj, err := readable(r)
	return e, obj, err == nil
}

// toStable makes every way to the update revision lead to stable. found reports
// whether there was any.
func (e inPlace) toStable(d Data, p Params) (_ Data, found bool) {
	d = d.copied()
	_, found = e.renamed(d.Spec, p)
	for key, value := range d.Annotations {
		if e.annotations == "" || !strings.HasPrefix(key, e.annotations) {
			continue
		}
		d.Annotations[key] = strings.ReplaceAll(value, `"`+p.Canary+`"`, `"`+p.Stable+`"`)
		found = found || d.Annotations[key] != value
	}
	return d, found
}

// renamed is a part of a spec with the stable Service for the canary one. found reports
// whether the part names the update revision. Its subset is left out, and equal ways are
// joined. Services of other namespaces stay.
func (e inPlace) renamed(part any, p Params) (_ any, found bool) {
	switch part := part.(type) {
	case string:
		if p.Canary != p.Stable && (part == p.Canary || strings.HasPrefix(part, p.Canary+"."+p.Namespace)) {
			return p.Stable + strings.TrimPrefix(part, p.Canary), true
		}
	case map[string]any:
		if str(part, "namespace", p.Namespace) != p.Namespace {
			return part, false
		}
		return part, e.renamedFields(part, p)
	case []any:
		return e.renamedElements(part, p)
	}
	return part, false
}

func (e inPlace) renamedFields(part map[string]any, p Params) (found bool) {
	for key, value := range part {
		next, inside := e.renamed(value, p)
		if part[key] = next; p.Canary == p.Stable && key == "subset" && value == subsetCanary {
			delete(part, key)
			inside = true
		}
		found = found || inside
	}
	return found
}

func (e inPlace) renamedElements(part []any, p Params) (_ []any, found bool) {
	list := make([]any, 0, len(part))
	for _, element := range part {
		next, inside := e.renamed(element, p)
		m, _ := next.(map[string]any)
		switch {
		case e.mark != "" && m["name"] == e.mark:
			inside = true
		case inside:
			list = joined(list, next)
		default:
			list = append(list, next)
		}
		found = found || inside
	}
	return list, found
}

// joined adds a way to the ways of a rule, or its weight to that of an equal way.
func joined(list []any, element any) []any {
	weight := func(m map[string]any) (any, map[string]any) {
		bare := runtime.DeepCopyJSON(m)
		delete(bare, "weight")
		return m["weight"], bare
	}
	m, ok := element.(map[string]any)
	if !ok {
		return append(list, element)
	}
	more, way := weight(m)
	for _, other := range objects(list) {
		if has, same := weight(other); has != nil && more != nil && equality.Semantic.DeepEqual(way, same) {
			other["weight"] = whole(other, "weight", 0) + whole(m, "weight", 0)
			return list
		}
	}
	return append(list, element)
}

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

// The original of a router that is edited in place is kept in an annotation of the router, where
// everybody who can write the router can change it. So the store has a digest of each original,
// stored before the original was written to the router. An original without a digest is not
// trusted. Instead, the original is then computed from the current object: every reference to the
// canary Service is replaced by the stable Service.

// originalOf returns the original of a router. routed reports whether the router has a route.
func (e inPlace) originalOf(o Objects, r Router, obj *unstructured.Unstructured) (original Data, routed bool, err error) {
	text, kept := obj.GetAnnotations()[rollouts.AnnotationOriginalSpec]
	if kept && o.trustsOriginal(r, obj) {
		return original, true, json.Unmarshal([]byte(text), &original)
	}
	original, err = readData(obj)
	if err != nil {
		return Data{}, false, err
	}
	p := o.paramsFor(planner.Route{})
	switch {
	case kept:
	case slices.Contains(o.OriginalDigests, dataDigest(r, original)), o.noRouterChanged():
		return original, false, nil
	}
	stripped := false
	if e.stripLegacyRoute != nil && !o.Shared {
		original, stripped = e.stripLegacyRoute(original, p)
	}
	original, found := e.redirectToStable(original, p)
	return original, kept || stripped || found, nil
}

// trustsOriginal reports whether the original on a router can be read and was written for the
// release of the owner. Older versions stored no digests; then every original that can be read is
// trusted.
func (o Objects) trustsOriginal(r Router, obj metav1.Object) bool {
	text, kept := obj.GetAnnotations()[rollouts.AnnotationOriginalSpec]
	var original Data
	if !kept || json.Unmarshal([]byte(text), &original) != nil || len(original.Spec) == 0 {
		return false
	}
	return o.OriginalDigests == nil || slices.Contains(o.OriginalDigests, originalDigest(r, text))
}

// originalDigest returns the digest that identifies an original in the store.
func originalDigest(r Router, text string) string {
	sum := sha256.Sum256([]byte(r.Kind.String() + "/" + r.Name + "\n" + text))
	return hex.EncodeToString(sum[:16])
}

func dataDigest(r Router, original Data) string {
	text, _ := json.Marshal(original) // it was read from JSON
	return originalDigest(r, string(text))
}

// OriginalDigests returns the digests of the originals on the routers, and of the originals that
// the next route would write.
func OriginalDigests(o Objects) []string {
	all := []string{}
	for _, r := range o.Routers {
		provider, obj, ok := inPlaceProvider(r)
		if !ok {
			continue
		}
		if o.trustsOriginal(r, obj) {
			all = append(all, originalDigest(r, obj.GetAnnotations()[rollouts.AnnotationOriginalSpec]))
		}
		if original, _, err := provider.ownerData(o, r, obj); err == nil {
			all = append(all, dataDigest(r, original))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// noRouterChanged reports whether this release has changed no router yet. Then a reference to the
// canary Service belongs to the owner.
func (o Objects) noRouterChanged() bool {
	return len(o.OriginalDigests) == 0 && (o.Shared || o.CanaryService == nil || !o.createdForOwner(o.CanaryService))
}

// TamperedRouter returns the name of a router whose original is not trusted; empty if there is
// none.
func TamperedRouter(o Objects) string {
	for _, r := range o.Routers {
		provider, obj, ok := inPlaceProvider(r)
		if !ok || o.trustsOriginal(r, obj) {
			continue
		}
		if _, routed, err := provider.originalOf(o, r, obj); routed && err == nil {
			return r.displayName()
		}
	}
	return ""
}

// inPlaceProvider returns the provider and the object of a router. ok reports whether the router is
// edited in place and exists.
func inPlaceProvider(r Router) (e inPlace, obj *unstructured.Unstructured, ok bool) {
	provider, _ := findProvider(r)
	if e, ok = provider.(inPlace); !ok {
		return e, nil, false
	}
	obj, err := toUnstructured(r)
	return e, obj, err == nil
}

// redirectToStable replaces every reference to the canary revision by the stable Service. found
// reports whether there was any.
func (e inPlace) redirectToStable(d Data, p Params) (_ Data, found bool) {
	d = d.deepCopy()
	_, found = e.replaceCanary(d.Spec, p)
	for key, value := range d.Annotations {
		if e.annotationPrefix == "" || !strings.HasPrefix(key, e.annotationPrefix) {
			continue
		}
		d.Annotations[key] = strings.ReplaceAll(value, `"`+p.CanaryService+`"`, `"`+p.StableService+`"`)
		found = found || d.Annotations[key] != value
	}
	return d, found
}

// replaceCanary replaces the canary Service by the stable one in a part of a spec. found reports
// whether the part refers to the canary revision. It removes the canary subset, and merges backends
// that become equal. Services of other namespaces are kept.
func (e inPlace) replaceCanary(part any, p Params) (_ any, found bool) {
	switch part := part.(type) {
	case string:
		if p.CanaryService != p.StableService && (part == p.CanaryService || strings.HasPrefix(part, p.CanaryService+"."+p.Namespace)) {
			return p.StableService + strings.TrimPrefix(part, p.CanaryService), true
		}
	case map[string]any:
		if stringField(part, "namespace", p.Namespace) != p.Namespace {
			return part, false
		}
		return part, e.replaceCanaryInMap(part, p)
	case []any:
		return e.replaceCanaryInList(part, p)
	}
	return part, false
}

func (e inPlace) replaceCanaryInMap(part map[string]any, p Params) (found bool) {
	for key, value := range part {
		next, inside := e.replaceCanary(value, p)
		if part[key] = next; p.CanaryService == p.StableService && key == "subset" && value == subsetCanary {
			delete(part, key)
			inside = true
		}
		found = found || inside
	}
	return found
}

func (e inPlace) replaceCanaryInList(part []any, p Params) (_ []any, found bool) {
	list := make([]any, 0, len(part))
	for _, element := range part {
		next, inside := e.replaceCanary(element, p)
		m, _ := next.(map[string]any)
		switch {
		case e.routeMarker != "" && m["name"] == e.routeMarker:
			inside = true
		case inside:
			list = appendOrMergeBackend(list, next)
		default:
			list = append(list, next)
		}
		found = found || inside
	}
	return list, found
}

// appendOrMergeBackend appends a backend to the backends of a rule. If an equal backend exists, it
// adds the weights instead.
func appendOrMergeBackend(list []any, element any) []any {
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
	for _, other := range mapElements(list) {
		if has, same := weight(other); has != nil && more != nil && equality.Semantic.DeepEqual(way, same) {
			other["weight"] = intField(other, "weight", 0) + intField(m, "weight", 0)
			return list
		}
	}
	return append(list, element)
}

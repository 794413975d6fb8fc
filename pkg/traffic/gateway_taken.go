// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import "slices"

// strip takes the canary Service off an HTTPRoute, as OpenKruise does in the end:
// rules that lead nowhere else go, and beside it the stable one had a weight that
// nobody has noted.
func strip(d Data, p Params) (stripped Data, found bool) {
	var rules []map[string]any
	for _, rule := range objects(d.Spec["rules"]) {
		refs := objects(rule["backendRefs"])
		kept := slices.DeleteFunc(slices.Clone(refs), func(ref map[string]any) bool { return p.leads(ref, p.Canary) })
		if len(kept) == len(refs) {
			rules = append(rules, rule)
			continue
		}
		found = true
		for _, ref := range kept {
			if p.leads(ref, p.Stable) {
				ref["weight"] = int64(1)
			}
		}
		if rule["backendRefs"] = listed(kept); len(kept) > 0 {
			rules = append(rules, rule)
		}
	}
	if found {
		d.Spec["rules"] = listed(rules)
	}
	return d, found
}

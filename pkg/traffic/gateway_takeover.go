// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import "slices"

// strip removes the canary Service from an HTTPRoute, as OpenKruise does at the
// end of a release: rules that lead only there go, and the stable Service gets
// weight 1, since its original weight is not on record.
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

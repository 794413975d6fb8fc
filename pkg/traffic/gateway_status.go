// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// verdicts are the conditions by which a gateway says what it makes of a route,
// and what they must be.
var verdicts = map[string]string{"Accepted": "True", "ResolvedRefs": "True", "PartiallyInvalid": "False"}

// accepted reads what gateways say of a route of the Gateway API. Nobody needs
// to say anything; what was said of an older generation is not for this one.
func accepted(obj *unstructured.Unstructured) (pending, refused string) {
	wanted := objects(within(obj.Object, "spec")["parentRefs"])
	for _, parent := range objects(within(obj.Object, "status")["parents"]) {
		ref := within(parent, "parentRef")
		if !slices.ContainsFunc(wanted, func(w map[string]any) bool { return sameParent(w, ref) }) {
			continue // it was detached, and nobody will say any more of it
		}
		name := str(ref, "name", "")
		for _, c := range objects(parent["conditions"]) {
			good, known := verdicts[str(c, "type", "")]
			status := str(c, "status", "")
			switch seen := whole(c, "observedGeneration", obj.GetGeneration()); {
			case !known:
			case seen < obj.GetGeneration():
				pending = first(pending, name+" has not seen it yet")
			case status == "Unknown":
				pending = first(pending, fmt.Sprintf("%s: %s", name, verdict(c)))
			case status != good:
				refused = first(refused, fmt.Sprintf("%s: %s", name, verdict(c)))
			}
		}
	}
	return pending, refused
}

func verdict(c map[string]any) string {
	return fmt.Sprintf("%s is %s: %s: %s", c["type"], c["status"], str(c, "reason", ""), str(c, "message", ""))
}

func sameParent(a, b map[string]any) bool {
	return a["name"] == b["name"] && a["sectionName"] == b["sectionName"] && a["port"] == b["port"]
}

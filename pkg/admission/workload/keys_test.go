// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// Every path limits the number of annotations and labels of a workload. An object that exceeds the limit
// may shrink, and its other fields may change.
func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	const most, revision = 512, "deployment.kubernetes.io/revision"
	with := func(o object.Object, field string, n int, more ...string) object.Object {
		keys := map[string]string{}
		for i := range n {
			keys[fmt.Sprintf("k%d", i)] = ""
		}
		for _, key := range more {
			keys[key] = "1"
		}
		o = copyOf(o)
		if field == "labels" {
			maps.Copy(keys, o.GetLabels())
			o.SetLabels(keys)
		} else {
			maps.Copy(keys, o.GetAnnotations())
			o.SetAnnotations(keys)
		}
		return o
	}
	asked := asker(t)
	for kind, s := range samples {
		for _, field := range []string{"annotations", "labels"} {
			for name, c := range map[string]struct {
				old, update object.Object
				refused     bool
			}{
				"as many as may be":            {s.plain, with(s.plain, field, most), false},
				"one more":                     {s.plain, with(s.plain, field, most+1), true},
				"the number of its controller": {with(s.plain, field, most), with(s.plain, field, most, revision), false},
				"the name of a release is one": {with(s.plain, field, most), with(s.plain, field, most, rollouts.LabelRolloutID), true},
				"there were as many":           {with(s.plain, field, 600), with(s.plain, field, 600), false},
				"one goes":                     {with(s.plain, field, 600), with(s.plain, field, 599), false},
				"one comes to too many":        {with(s.plain, field, 600), with(s.plain, field, 601), true},
				"thousands come":               {s.plain, with(s.plain, field, 1500), true},
				"a number comes to thousands":  {with(s.plain, field, 1500), with(s.plain, field, 1500, revision), false},
			} {
				for path, admit := range admissionPaths(t) {
					if path != "webhook" && kind != "Deployment" {
						continue // the policies judge every kind by the same expressions, and take long
					}
					for _, subresource := range []string{"", "status"} {
						request := sent{as: "alice", subresource: subresource, old: copyOf(c.old), update: copyOf(c.update)}
						_, refused := admit(t, s.in(false), request)
						says := "metadata." + field + " must not have more than 512 keys"
						if (refused != "") != c.refused || c.refused && (!strings.HasPrefix(refused, says) || !strings.HasSuffix(refused, "remove some")) {
							t.Errorf("%s, %s, %s, %s %s: refused %t: %s", path, kind, field, name, subresource, refused != "", refused)
						}
						if c.refused && !asked(request) {
							t.Errorf("%s, %s, %s: the webhook is not asked", kind, field, name)
						}
					}
				}
			}
		}
	}
}

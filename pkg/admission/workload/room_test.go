// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"maps"
	"strings"
	"testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
)

// At every path, annotations of users leave enough space for those of Weir. An object that is too large
// already may shrink, and its other fields may change.
func TestAnnotationsLeaveRoom(t *testing.T) {
	t.Parallel()
	crowding(t, "metadata.annotations ", 192<<10, object.Object.GetAnnotations, object.Object.SetAnnotations)
}

// Labels have a limit of their own, so that no write of a workload takes long.
func TestLabelsLeaveRoom(t *testing.T) {
	t.Parallel()
	crowding(t, "metadata.labels ", 64<<10, object.Object.GetLabels, object.Object.SetLabels)
}

func crowding(t *testing.T, says string, most int, get func(object.Object) map[string]string, set func(object.Object, map[string]string)) {
	t.Helper()
	const kib, revision = 1 << 10, "deployment.kubernetes.io/revision"
	with := func(o object.Object, key string, size int) object.Object {
		wrote := maps.Clone(get(o))
		if wrote == nil {
			wrote = map[string]string{}
		}
		rest := size - len(key)
		wrote[key] = strings.Repeat("é", rest/2) + strings.Repeat("x", rest%2)
		o = copyOf(o)
		set(o, wrote)
		return o
	}
	asked := asker(t)
	for kind, s := range samples {
		row, _ := findRow(kindOf(s.plain), nil)
		held := copyOf(s.plain)
		row.Hold(held, "web", false)
		for name, c := range map[string]struct {
			old, update object.Object
			refused     bool
		}{
			"as much as may be":   {s.plain, with(s.plain, "note", most), false},
			"a byte more":         {s.plain, with(s.plain, "note", most+1), true},
			"of a held one":       {held, with(held, "note", most+1), true},
			"and records":         {with(held, "note", most), with(held, "note", most), false},
			"in two keys":         {with(s.plain, "a", most/2+4*kib), with(with(s.plain, "a", most/2+4*kib), "b", most/2+4*kib), true},
			"the name of release": {s.plain, with(s.plain, rollouts.LabelRolloutID, most+1), true},
			"it was so":           {with(s.plain, "note", most+8*kib), with(s.plain, "note", most+8*kib), false},
			"words are stored":    {with(s.plain, rollouts.AnnotationRefused, 40), with(with(s.plain, rollouts.AnnotationRefused, 40), "note", most+1), true},
			"it shrinks":          {with(s.plain, "note", most+18*kib), with(s.plain, "note", most+8*kib), false},
			"it grows":            {with(s.plain, "note", most+8*kib), with(s.plain, "note", most+8*kib+1), true},
			"a number":            {with(s.plain, "note", most), with(with(s.plain, "note", most), revision, len(revision)+20), false},
			"more than a number":  {with(s.plain, "note", most), with(with(s.plain, "note", most), revision, len(revision)+21), true},
			"no number alone":     {s.plain, with(s.plain, revision, most+1), true},
			"no number, as much":  {s.plain, with(s.plain, revision, most), false},
			"it was a number":     {with(s.plain, revision, len(revision)+1), with(s.plain, revision, most+1), true},
			"a number again":      {with(s.plain, revision, most+8*kib), with(s.plain, revision, len(revision)+1), false},
		} {
			for path, admit := range admissionPaths(t) {
				if !s.native && path != "webhook" {
					continue
				}
				for _, subresource := range []string{"", "status"} {
					request := sent{as: "alice", subresource: subresource, old: copyOf(c.old), update: copyOf(c.update)}
					_, refused := admit(t, s.in(false), request)
					if (refused != "") != c.refused || c.refused && !strings.HasPrefix(refused, says) {
						t.Errorf("%s, %s, %s %s: refused %t: %s", path, kind, name, subresource, refused != "", refused)
					}
					if request.as = weir; asked(request) {
						t.Errorf("%s, %s: the webhook is asked about a write of Weir's own", kind, name)
					}
				}
			}
		}
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/weir-rollouts/weir/pkg/planner"
)

// TestTemplateAsideIsIdentified has a user who replaces the ControllerRevision of an aborted release
// by one of the same name with another template. A retry must not set this template.
func TestTemplateAsideIsIdentified(t *testing.T) {
	t.Parallel()
	for name, digest := range map[string]string{
		"the same":         digestWithLabels(templateOf("b")),
		"another":          digestWithLabels(templateOf("c")),
		"before Weir knew": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStatefulScene(t, "a", "AAAAA", setStatefulTarget(5, 0, true, `,"aside":"db-b","asideTemplate":"`+digest+`"`))
			set, aside := statefulSet.view(s.set, s.owned, HoldFromRecords(s.set)).forTarget(planner.Target{Partition: all})
			want := set.(*appsv1.StatefulSet)
			if aside != (planner.Revision{}) {
				t.Errorf("%s is still set aside", aside.Name)
			}
			image := "db:b"
			if name == "another" {
				image = "db:a"
			}
			if got := want.Spec.Template.Spec.Containers[0].Image; got != image {
				t.Errorf("the template is that of %s, want %s", got, image)
			}
		})
	}
	k := planner.HoldState{Update: planner.Revision{Name: "db-b", Template: "digest"}}
	s := newStatefulScene(t, "a", "AAAAA", setStatefulTarget(5, 0, true, `,"aside":"db-b","asideTemplate":"forged"`))
	k.Target = &planner.Target{Abort: true}
	if had, _ := strategyOf(s.set, k, true); had.SetAsideTemplate != "digest" {
		t.Errorf("the digest is %q, want that of the store", had.SetAsideTemplate)
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// TestOverrideOfAnotherTemplate checks that an override of checks applies to one template only. The
// override lasts until the attempt with this template is over.
func TestOverrideOfAnotherTemplate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		revision, template string
		want               bool
	}{
		"this template":        {"v2", "sha256:2", true},
		"another template":     {"v1", "sha256:1", false},
		"a collision of names": {"v2", "sha256:1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := &rollouts.Release{Analysis: &rollouts.Analysis{}, Steps: []rollouts.Step{{}}}
			d := newDraft(facts{plan: plan, style: rollouts.StyleCanary})
			d.Now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
			p := d.progress()
			p.UpdateRevision, p.UpdateTemplate = "v2", "sha256:2"
			d.status.Analysis = &rollouts.AnalysisStatus{Revision: test.revision, UpdateTemplate: test.template, Overridden: true}
			beginAnalysis(d)
			if a := d.status.Analysis; a.UpdateTemplate != "sha256:2" || a.Since == nil || a.Overridden != test.want {
				t.Errorf("got %+v, want overridden %v", a, test.want)
			}
		})
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import "github.com/weir-rollouts/weir/pkg/apis/rollouts"

// Revision is a version of a workload. Template identifies it. Name is a short hash for
// people, clients and label selectors: it has 32 bits, so anybody can make another
// template with the same name in a second.
type Revision struct {
	Name string
	// Template is the SHA-256 digest of the pod template, in hexadecimal digits. It is
	// empty in data that an earlier version of Weir stored, and for a revision whose
	// template no longer exists.
	Template string
}

// HasTemplateOf reports whether the workload's template to release is that of the revision. It compares
// digests. It compares names only if one of the digests is unknown, as in a status of an
// earlier version of Weir, before addMissingDigest has added the digest.
func (w *Workload) HasTemplateOf(r Revision) bool {
	if r.Template != "" && w.UpdateTemplate != "" {
		return r.Template == w.UpdateTemplate
	}
	return r.Name != "" && (r.Name == w.UpdateRevision || r.Name == w.PodTemplateHash)
}

// updateRevision returns the revision that a release updates the workload to.
func updateRevision(p rollouts.Progress) Revision {
	return Revision{p.UpdateRevision, p.UpdateTemplate}
}

// stableRevision returns the revision that served before a release.
func stableRevision(p rollouts.Progress) Revision {
	return Revision{p.StableRevision, p.StableTemplate}
}

// RevisionOfPlan returns the revision that a release plan is for.
func RevisionOfPlan(p rollouts.ReleasePlan) Revision { return Revision{p.Revision, p.UpdateTemplate} }

// IsPlanFor reports whether the plan is for the current template of the workload. A plan without a
// revision applies to any template.
func IsPlanFor(p rollouts.ReleasePlan, w *Workload) bool {
	r := RevisionOfPlan(p)
	return r == Revision{} || w.HasTemplateOf(r)
}

// addMissingDigest adds the digest to a status that an earlier version of Weir stored without one. It
// takes the digest of the workload's current template if that template has the revision name of
// the release. Until then only the name is compared, as in the earlier version.
func addMissingDigest(f facts) {
	p := f.status.Active()
	if p == nil || f.w == nil || p.UpdateTemplate != "" || p.UpdateRevision == "" || !f.hasReleasedTemplate() {
		return
	}
	p.UpdateTemplate = f.w.UpdateTemplate
	if a := f.status.Analysis; a != nil && a.Revision == p.UpdateRevision && a.UpdateTemplate == "" {
		a.UpdateTemplate = p.UpdateTemplate
	}
	if r := currentRecord(&f.status); r != nil && r.UpdateRevision == p.UpdateRevision {
		r.UpdateTemplate = p.UpdateTemplate
	}
}

// newName returns the revision name of a release that starts. A user can craft a template with
// the short hash of an earlier one. Then newName appends digits of the digest, so that people
// and clients can distinguish the two. Names of ControllerRevisions need no change: native
// controllers resolve such collisions themselves.
func newName(f facts) string {
	name, template := f.w.UpdateRevision, f.w.UpdateTemplate
	if f.w.AbortSetsTemplate || template == "" {
		return name
	}
	taken := func(r Revision) bool { return r.Name == name && r.Template != "" && r.Template != template }
	p := f.stored()
	found := taken(updateRevision(p)) || taken(stableRevision(p)) || taken(Revision{f.w.StableRevision, f.w.StableTemplate})
	for _, r := range f.status.Releases {
		found = found || taken(Revision{r.UpdateRevision, r.UpdateTemplate})
	}
	if !found {
		return name
	}
	return DistinctName(name, template)
}

// DistinctName returns a unique name for a revision whose short hash another revision has as well.
func DistinctName(hash, template string) string { return hash + template[:32] }

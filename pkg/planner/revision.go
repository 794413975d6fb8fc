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
	// template does not exist anymore.
	Template string
}

// Is reports whether the template to release is that of the revision. Names decide only
// where one of the two digests is not known: a status of an earlier version gets its
// digest from the first observation (bindTemplate).
func (w *Workload) Is(r Revision) bool {
	if r.Template != "" && w.UpdateTemplate != "" {
		return r.Template == w.UpdateTemplate
	}
	return r.Name != "" && (r.Name == w.UpdateRevision || r.Name == w.PodTemplateHash)
}

// updateOf is the revision that a release updates the workload to.
func updateOf(p rollouts.Progress) Revision { return Revision{p.UpdateRevision, p.UpdateTemplate} }

// stableOf is the revision that served before a release.
func stableOf(p rollouts.Progress) Revision { return Revision{p.StableRevision, p.StableTemplate} }

// Planned is the revision that a plan of batches is for.
func Planned(p rollouts.ReleasePlan) Revision { return Revision{p.Revision, p.UpdateTemplate} }

// Wanted reports whether the plan is for the template that the workload has. A plan that
// names no revision is for any template.
func Wanted(p rollouts.ReleasePlan, w *Workload) bool {
	r := Planned(p)
	return r == Revision{} || w.Is(r)
}

// bindTemplate binds a status of an earlier version of Weir, which has no digest, to the
// template that the workload has, if that has the name of the release. Until then the name
// alone decides, as it did in that version.
func bindTemplate(f *facts) {
	p := f.status.Active()
	if p == nil || f.w == nil || p.UpdateTemplate != "" || p.UpdateRevision == "" || !f.live() {
		return
	}
	p.UpdateTemplate = f.w.UpdateTemplate
	if a := f.status.Analysis; a != nil && a.Revision == p.UpdateRevision && a.UpdateTemplate == "" {
		a.UpdateTemplate = p.UpdateTemplate
	}
	if r := record(&f.status); r != nil && r.UpdateRevision == p.UpdateRevision {
		r.UpdateTemplate = p.UpdateTemplate
	}
}

// newName names the revision of a release that starts. Another template of the record
// may have the same short hash, by intention: then digits of the digest are added, so that
// people and clients can tell both apart. Native controllers choose the names of
// ControllerRevisions, and choose different ones.
func newName(f *facts) string {
	name, template := f.w.UpdateRevision, f.w.UpdateTemplate
	if f.w.BackByTemplate || template == "" {
		return name
	}
	taken := func(r Revision) bool { return r.Name == name && r.Template != "" && r.Template != template }
	p := f.was()
	found := taken(updateOf(p)) || taken(stableOf(p)) || taken(Revision{f.w.StableRevision, f.w.StableTemplate})
	for _, r := range f.status.Releases {
		found = found || taken(Revision{r.UpdateRevision, r.UpdateTemplate})
	}
	if !found {
		return name
	}
	return DistinctName(name, template)
}

// DistinctName is the name of a revision whose short hash another revision has, too.
func DistinctName(hash, template string) string { return hash + "-" + template[:8] }

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package takeover answers one question: what must be stored so that Weir goes on
// where another implementation of this API was? It is pure: objects in, objects
// and remarks out. It must not know where objects are read from or written to.
package takeover

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/claim"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Object is an object of the API.
type Object = object.Object

// Found is all that there is.
type Found struct {
	Rollouts         []*rollouts.Rollout
	BatchReleases    []*rollouts.BatchRelease
	TrafficRoutings  []*rollouts.TrafficRouting
	RolloutHistories []*rollouts.RolloutHistory
	// Deployments and ReplicaSets are those of the namespaces that have Rollouts.
	Deployments []*appsv1.Deployment
	ReplicaSets []*appsv1.ReplicaSet
}

// Remark is something to know about one object.
type Remark struct {
	// Of names the object.
	Of   string
	Text string
	// Refused reports whether nothing may be stored because of it.
	Refused bool
}

// Plan is what to store.
type Plan struct {
	// Objects are to be stored as they are, uids and all.
	Objects []Object
	// Owners are the Rollouts that claim their workloads.
	Owners []*rollouts.Rollout
	// Live describes the releases that are under way.
	Live    []Remark
	Remarks []Remark
}

// Refused reports whether nothing may be stored.
func (p *Plan) Refused() bool {
	return slices.ContainsFunc(p.Remarks, func(r Remark) bool { return r.Refused })
}

// Decide plans a takeover.
func Decide(f Found) *Plan {
	p := &Plan{}
	batches := map[types.NamespacedName]*rollouts.BatchRelease{}
	for _, b := range f.BatchReleases {
		b = b.DeepCopy()
		batches[types.NamespacedName{Namespace: b.Namespace, Name: b.Name}] = b
		p.keep("BatchRelease", b, validation.ValidateBatchRelease(b))
	}
	for _, r := range f.Rollouts {
		r = r.DeepCopy()
		p.rollout(r, batches[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}], &f)
	}
	for _, t := range f.TrafficRoutings {
		p.keep("TrafficRouting", t.DeepCopy(), validation.ValidateTrafficRouting(t))
	}
	for _, h := range f.RolloutHistories {
		p.keep("RolloutHistory", h.DeepCopy(), validation.ValidateRolloutHistory(h))
	}
	return p
}

// keep stores an object, whatever is wrong with it: what is stored already stays
// valid until somebody changes it.
func (p *Plan) keep(kind string, o Object, errs field.ErrorList) {
	for _, err := range errs {
		p.remark(kind, o, "is kept as it is, but a change of it has to fix this: "+err.Error())
	}
	o.SetResourceVersion("")
	p.Objects = append(p.Objects, o)
}

func (p *Plan) remark(kind string, o Object, text string) {
	p.Remarks = append(p.Remarks, Remark{Of: describe(kind, o), Text: text})
}

func (p *Plan) refuse(r *rollouts.Rollout, text string) {
	p.Remarks = append(p.Remarks, Remark{Of: describe("Rollout", r), Text: text, Refused: true})
}

func (p *Plan) rollout(r *rollouts.Rollout, b *rollouts.BatchRelease, f *Found) {
	rehash(r)
	p.keep("Rollout", r, validation.ValidateRollout(r, validation.Options{AnyWorkloadKind: true}))
	ref := r.Spec.WorkloadRef
	if ref == nil {
		return
	}
	p.claim(r)
	key, release := r.Spec.Strategy.Active()
	if release == nil {
		return
	}
	for _, warning := range traffic.Warnings(release, "spec.strategy."+key.Key()) {
		p.remark("Rollout", r, warning)
	}
	style := rollouts.StyleFor(&r.Spec.Strategy, ref)
	row, served := workload.Find(ref.APIVersion, ref.Kind, style)
	live := r.Status.UnderWay()
	// Of other kinds nothing is read that tells how far a release is.
	known := served && row.GVK.GroupKind() == deployments
	switch {
	case !known && live:
		p.refuse(r, fmt.Sprintf("has a release under way of a %s in the style %s, which Weir cannot go on with; finish it first, or roll it back", ref.Kind, style))
	case !served:
		p.remark("Rollout", r, fmt.Sprintf("names a %s, which Weir does not release in the style %s: it will say so and do nothing", ref.Kind, style))
	case known:
		if same := adoptRevision(r, b, row, f); live {
			p.live(r, release, same)
		}
	}
}

func (p *Plan) live(r *rollouts.Rollout, release *rollouts.Release, same bool) {
	what := string(r.Status.Phase)
	if progress := r.Status.Active(); progress != nil {
		what = fmt.Sprintf("%s, step %d of %d, %s", what, progress.CurrentStepIndex, len(release.Steps), progress.State)
	}
	p.Live = append(p.Live, Remark{Of: describe("Rollout", r), Text: what})
	if !same {
		p.remark("Rollout", r, "has a release under way of a template that its workload has no longer: Weir will begin with the one it has, at step 1")
	}
}

// claim makes a Rollout the one of its workload.
func (p *Plan) claim(r *rollouts.Rollout) {
	for _, first := range p.Owners {
		if first.Namespace == r.Namespace && claim.SameWorkload(first.Spec.WorkloadRef, r.Spec.WorkloadRef) {
			p.refuse(r, fmt.Sprintf("names the workload that Rollout %s names as well: a workload has one Rollout, so delete one of them", first.Name))
			return
		}
	}
	p.Owners = append(p.Owners, r)
}

// rehash sets the hash of the plan that Weir computes. A release under way of that
// plan stays one.
func rehash(r *rollouts.Rollout) {
	_, release := r.Spec.Strategy.Active()
	if release == nil {
		return
	}
	theirs, ours := r.Annotations[rollouts.AnnotationHash], planner.PlanHash(release)
	metav1.SetMetaDataAnnotation(&r.ObjectMeta, rollouts.AnnotationHash, ours)
	if p := r.Status.Active(); p != nil && theirs != "" && p.RolloutHash == theirs {
		p.RolloutHash = ours
	}
}

var deployments = appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind()

// adoptRevision stores the name of the revision that Weir computes, if the template of
// the workload is the one that was released, and returns whether it is: names of
// revisions differ between implementations, and between versions of one.
func adoptRevision(r *rollouts.Rollout, b *rollouts.BatchRelease, row workload.Row, f *Found) bool {
	d, owned := f.workload(r, b)
	progress := r.Status.Active()
	if d == nil || progress == nil {
		return false
	}
	w := row.Observe(d, owned, workload.HoldFromRecords(d))
	bindWorkload(r, b, d, w)
	if progress.ObservedWorkloadGeneration != w.Generation && (progress.PodTemplateHash == "" || progress.PodTemplateHash != w.PodTemplateHash) {
		return w.Is(planner.Revision{Name: progress.UpdateRevision})
	}
	if b != nil && b.Status.UpdateRevision == progress.UpdateRevision {
		b.Status.UpdateRevision, b.Status.UpdateTemplate = w.UpdateRevision, w.UpdateTemplate
	}
	progress.UpdateRevision, progress.UpdateTemplate = w.UpdateRevision, w.UpdateTemplate
	return true
}

// bindWorkload stores what OpenKruise keeps on the workload alone. It is trusted once,
// here: the administrator who imports vouches for it.
func bindWorkload(r *rollouts.Rollout, b *rollouts.BatchRelease, d *appsv1.Deployment, w planner.Workload) {
	r.Status.WorkloadUID = d.UID
	if b == nil || w.Target == nil || b.Status.Phase == rollouts.PhaseCompleted {
		return
	}
	b.Status.WorkloadUID = d.UID
	b.Status.Drive = &rollouts.Drive{Partition: w.Target.Partition, Abort: w.Target.Abort,
		Revision: w.Target.Revision.Name, UpdateTemplate: w.Target.Revision.Template}
}

// workload is the Deployment of a Rollout, and what belongs to it and to its
// BatchRelease, which may be nil.
func (f *Found) workload(r *rollouts.Rollout, b *rollouts.BatchRelease) (d *appsv1.Deployment, owned []object.Object) {
	owners := map[string]bool{}
	for _, o := range f.Deployments {
		switch {
		case o.Namespace != r.Namespace:
		case o.Name == r.Spec.WorkloadRef.Name:
			d = o
			owners[string(o.UID)] = true
		case b != nil && metav1.IsControlledBy(o, b):
			owned = append(owned, o)
			owners[string(o.UID)] = true
		}
	}
	for _, rs := range f.ReplicaSets {
		if ref := metav1.GetControllerOf(rs); ref != nil && owners[string(ref.UID)] {
			owned = append(owned, rs)
		}
	}
	return d, owned
}

func describe(kind string, o Object) string {
	return kind + " " + o.GetNamespace() + "/" + o.GetName()
}

// String is how a remark is printed.
func (r Remark) String() string { return strings.TrimSpace(r.Of + ": " + r.Text) }

// Add adds an object of the API.
func (f *Found) Add(o runtime.Object) {
	switch o := o.(type) {
	case *rollouts.Rollout:
		f.Rollouts = append(f.Rollouts, o)
	case *rollouts.BatchRelease:
		f.BatchReleases = append(f.BatchReleases, o)
	case *rollouts.TrafficRouting:
		f.TrafficRoutings = append(f.TrafficRoutings, o)
	case *rollouts.RolloutHistory:
		f.RolloutHistories = append(f.RolloutHistories, o)
	}
}

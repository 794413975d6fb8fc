// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package takeover decides which objects must be stored so that Weir continues the releases of another
// implementation of this API. It is pure: objects in, objects and remarks out. It does not depend on where
// objects are read and written.
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

// Found contains all objects of the other implementation.
type Found struct {
	Rollouts         []*rollouts.Rollout
	BatchReleases    []*rollouts.BatchRelease
	TrafficRoutings  []*rollouts.TrafficRouting
	RolloutHistories []*rollouts.RolloutHistory
	// Deployments and ReplicaSets are those in namespaces with Rollouts.
	Deployments []*appsv1.Deployment
	ReplicaSets []*appsv1.ReplicaSet
}

// Remark is information for the user about one object.
type Remark struct {
	// Object is the kind and the name of the object.
	Object string
	Text   string
	// Refused reports whether the remark prevents the takeover.
	Refused bool
}

// Plan is the result: what to store, and what to tell the user.
type Plan struct {
	// Objects are stored unchanged, including their UIDs.
	Objects []Object
	// Owners are the Rollouts that claim their workloads.
	Owners []*rollouts.Rollout
	// Live describes the current releases.
	Live    []Remark
	Remarks []Remark
}

// Refused reports whether a remark prevents the takeover.
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
		p.addObject("BatchRelease", b, validation.ValidateBatchRelease(b))
	}
	for _, r := range f.Rollouts {
		r = r.DeepCopy()
		p.addRollout(r, batches[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}], &f)
	}
	for _, t := range f.TrafficRoutings {
		p.addObject("TrafficRouting", t.DeepCopy(), validation.ValidateTrafficRouting(t))
	}
	for _, h := range f.RolloutHistories {
		p.addObject("RolloutHistory", h.DeepCopy(), validation.ValidateRolloutHistory(h))
	}
	return p
}

// addObject stores an object even if it is invalid. It must become valid when a user changes it.
func (p *Plan) addObject(kind string, o Object, errs field.ErrorList) {
	for _, err := range errs {
		p.addRemark(kind, o, "is kept as it is, but a change of it has to fix this: "+err.Error())
	}
	o.SetResourceVersion("")
	p.Objects = append(p.Objects, o)
}

func (p *Plan) addRemark(kind string, o Object, text string) {
	p.Remarks = append(p.Remarks, Remark{Object: describe(kind, o), Text: text})
}

func (p *Plan) addRefusal(r *rollouts.Rollout, text string) {
	p.Remarks = append(p.Remarks, Remark{Object: describe("Rollout", r), Text: text, Refused: true})
}

func (p *Plan) addRollout(r *rollouts.Rollout, b *rollouts.BatchRelease, f *Found) {
	setPlanHash(r)
	p.addObject("Rollout", r, validation.ValidateRollout(r, validation.Options{AnyWorkloadKind: true}))
	ref := r.Spec.WorkloadRef
	if ref == nil {
		return
	}
	p.claimWorkload(r)
	key, release := r.Spec.Strategy.Active()
	if release == nil {
		return
	}
	for _, warning := range traffic.Warnings(release, "spec.strategy."+key.Key()) {
		p.addRemark("Rollout", r, warning)
	}
	style := rollouts.StyleFor(&r.Spec.Strategy, ref)
	row, served := workload.Find(ref.APIVersion, ref.Kind, style)
	live := r.Status.UnderWay()
	// Weir can read the progress of a release only from workloads of known kinds.
	known := served && row.GVK.GroupKind() == deployments
	switch {
	case !known && live:
		p.addRefusal(r, fmt.Sprintf("has a release in progress of a %s in the style %s, which Weir cannot continue; finish it first, or roll it back", ref.Kind, style))
	case !served:
		p.addRemark("Rollout", r, fmt.Sprintf("names a %s, which Weir does not release in the style %s: Weir will report this and change nothing", ref.Kind, style))
	case known:
		if same := adoptRevision(r, b, row, f); live {
			p.addLiveRelease(r, release, same)
		}
	}
}

func (p *Plan) addLiveRelease(r *rollouts.Rollout, release *rollouts.Release, same bool) {
	what := string(r.Status.Phase)
	if progress := r.Status.Active(); progress != nil {
		what = fmt.Sprintf("%s, step %d of %d, %s", what, progress.CurrentStepIndex, len(release.Steps), progress.State)
	}
	p.Live = append(p.Live, Remark{Object: describe("Rollout", r), Text: what})
	if !same {
		p.addRemark("Rollout", r, "has a release in progress of a template that its workload no longer has: Weir will release the current template, from step 1")
	}
}

// claimWorkload records the Rollout as the owner of its workload. It refuses a second owner.
func (p *Plan) claimWorkload(r *rollouts.Rollout) {
	for _, first := range p.Owners {
		if first.Namespace == r.Namespace && claim.SameWorkload(first.Spec.WorkloadRef, r.Spec.WorkloadRef) {
			p.addRefusal(r, fmt.Sprintf("names the workload that Rollout %s names as well: a workload has one Rollout, so delete one of them", first.Name))
			return
		}
	}
	p.Owners = append(p.Owners, r)
}

// setPlanHash replaces the other implementation's hash of the plan by Weir's. A current release of that plan
// stays current.
func setPlanHash(r *rollouts.Rollout) {
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

// adoptRevision stores the revision name that Weir computes, and reports whether the template of the
// workload is the released one. Implementations, and versions of one implementation, compute different
// names for the same template.
func adoptRevision(r *rollouts.Rollout, b *rollouts.BatchRelease, row workload.Row, f *Found) bool {
	d, owned := f.findWorkload(r, b)
	progress := r.Status.Active()
	if d == nil || progress == nil {
		return false
	}
	w := row.Observe(d, owned, workload.HoldFromRecords(d))
	bindWorkload(r, b, d, w)
	if progress.ObservedWorkloadGeneration != w.Generation && (progress.PodTemplateHash == "" || progress.PodTemplateHash != w.PodTemplateHash) {
		return w.HasTemplateOf(planner.Revision{Name: progress.UpdateRevision})
	}
	if b != nil && b.Status.UpdateRevision == progress.UpdateRevision {
		b.Status.UpdateRevision, b.Status.UpdateTemplate = w.UpdateRevision, w.UpdateTemplate
	}
	progress.UpdateRevision, progress.UpdateTemplate = w.UpdateRevision, w.UpdateTemplate
	return true
}

// bindWorkload stores what OpenKruise records only in annotations of the workload. Weir trusts these
// annotations only here, because the administrator who imports vouches for them.
func bindWorkload(r *rollouts.Rollout, b *rollouts.BatchRelease, d *appsv1.Deployment, w planner.Workload) {
	r.Status.WorkloadUID = d.UID
	if b == nil || w.Target == nil || b.Status.Phase == rollouts.PhaseCompleted {
		return
	}
	b.Status.WorkloadUID = d.UID
	b.Status.Drive = &rollouts.Drive{Partition: w.Target.Partition, Abort: w.Target.Abort,
		Revision: w.Target.Revision.Name, UpdateTemplate: w.Target.Revision.Template}
}

// findWorkload returns the Deployment of a Rollout, and the objects that the Deployment and the BatchRelease
// own. b may be nil.
func (f *Found) findWorkload(r *rollouts.Rollout, b *rollouts.BatchRelease) (d *appsv1.Deployment, owned []object.Object) {
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

// String formats the remark for printing.
func (r Remark) String() string { return strings.TrimSpace(r.Object + ": " + r.Text) }

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

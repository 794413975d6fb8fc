// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/batch"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/pass"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/release"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Observation is one pass' view, with the objects that its changes are based on.
type Observation struct {
	Facts release.Observed
	// Rollout is as it is stored now, and Facts.Rollout as it was observed.
	Rollout *rollouts.Rollout
	// Batch is the view of its BatchRelease; nil where there is none.
	Batch    *pass.Batch
	entry    *cluster.Entry
	workload *cluster.Workload
	objects  traffic.Objects
	// unread reports whether the workload may not be read.
	unread bool
}

// unread is how soon to look again for a workload that may not be read: nothing
// tells when it may.
const unread = 10 * time.Second

// again is how soon to look again at what is to be read and cannot be, and at pods that
// may still get ready.
func (o *Observation) again() time.Duration {
	switch {
	case o.unread:
		return unread
	case o.Batch != nil:
		return pass.Sooner(cluster.Again(o.objects), o.Batch.Again)
	default:
		return cluster.Again(o.objects)
	}
}

// release is the BatchRelease, or nil.
func (o *Observation) release() *rollouts.BatchRelease {
	if o.Batch == nil {
		return nil
	}
	return o.Batch.Release
}

func (p passes) observe(ctx context.Context, key types.NamespacedName) (*Observation, error) {
	ro, err := p.Rollout(ctx, key)
	if err != nil || ro == nil {
		return nil, err
	}
	obs := &Observation{Rollout: ro, Facts: release.Observed{Observed: planner.Observed{Now: p.now(), Rollout: ro}}}
	if err := errors.Join(p.observeBatch(ctx, obs), p.observeAdmission(ctx, obs)); err != nil {
		return nil, err
	}
	row, err := p.observeWorkload(ctx, obs)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.observeTraffic(ctx, obs, row), p.observePods(ctx, obs)); err != nil {
		return nil, err
	}
	if obs.Facts.Routing, err = p.observeRouting(ctx, ro); err != nil {
		return nil, err
	}
	if err := p.observeChecks(ctx, obs); err != nil {
		return nil, err
	}
	// A release does not wait for its history. What is not known to be filed is
	// filed again, which changes nothing.
	if obs.Facts.Histories, err = p.Histories(ctx, ro); err != nil {
		logf.FromContext(ctx).Error(err, "Going on without histories")
	}
	return obs, nil
}

// observeBatch reads the BatchRelease of the Rollout's name, which may be another's.
func (p passes) observeBatch(ctx context.Context, obs *Observation) error {
	b, err := p.BatchReleaseOf(ctx, obs.Rollout)
	switch {
	case err != nil:
		return err
	case planner.Owns(obs.Rollout, b):
		obs.Batch, obs.Facts.Batch = &pass.Batch{Release: b}, planner.BatchFacts(b)
	case b != nil:
		obs.Facts.Occupied = planner.Occupied(b)
	}
	return nil
}

// observePods reads how far the batch is. Without a BatchRelease it is what a first one
// would find.
func (p passes) observePods(ctx context.Context, obs *Observation) error {
	facts := batch.Observed{Now: obs.Facts.Now, Owned: true, Wanted: true, Labels: p.options.Labels}
	if obs.Batch == nil {
		facts.Workload = obs.Facts.Workload
		obs.Facts.Batches = &facts
		return nil
	}
	facts.Release = obs.Batch.Release
	obs.Batch.Facts = facts
	readable, err := pass.ObserveBatch(ctx, p, obs.Batch, obs.workload)
	if readable {
		obs.Facts.Batches = &obs.Batch.Facts
	}
	return err
}

// observeAdmission reads what makes updates of the workload be held.
func (p passes) observeAdmission(ctx context.Context, obs *Observation) error {
	var err error
	if obs.entry, err = p.Entry(ctx, types.NamespacedName{Namespace: obs.Rollout.Namespace, Name: obs.Rollout.Name}, obs.Rollout.Spec.WorkloadRef); err != nil {
		return err
	}
	obs.Facts.Indexed, obs.Facts.Listed = obs.entry.Right, obs.entry.Listed
	obs.Facts.Unprotected, err = p.Unprotected(ctx, obs.Rollout, obs.entry.Unlisted)
	return err
}

// observeWorkload finds the row of the workload and reads it.
func (p passes) observeWorkload(ctx context.Context, obs *Observation) (workload.Row, error) {
	ref := obs.Rollout.Spec.WorkloadRef
	if ref == nil {
		obs.Facts.Unsupported = "spec.workloadRef is missing"
		return workload.Row{}, nil
	}
	style := rollouts.StyleFor(&obs.Rollout.Spec.Strategy, ref)
	row, ok := workload.Find(ref.APIVersion, ref.Kind, style)
	if !ok {
		obs.Facts.Unsupported = unsupported(ref, style)
		// The object is read all the same where its kind is known, so that a
		// workload that is there is not taken for gone.
		if row, ok = workload.Find(ref.APIVersion, ref.Kind, rollouts.StylePartition); !ok {
			if !leaves(obs.Rollout) { // else there is nothing to give back
				obs.Facts.Workload = &planner.Workload{Settled: true, Labelled: true}
			}
			return workload.Row{}, nil
		}
	}
	if absent, err := p.absent(ctx, obs, row); absent || err != nil {
		return workload.Row{}, err
	}
	w, err := p.readWorkload(ctx, obs, row)
	if decodeError, ok := errors.AsType[*cluster.DecodeError](err); ok {
		return workload.Row{}, without(obs, decodeError.Why, true)
	}
	if err != nil || w == nil {
		return row, err
	}
	facts := w.Facts()
	obs.workload, obs.Facts.Workload = w, &facts
	return row, p.observeSizing(ctx, obs)
}

// observeSizing has the sizes of ReplicaSets decided here, where it is this Rollout that
// releases the workload.
func (p passes) observeSizing(ctx context.Context, obs *Observation) error {
	w, ro := obs.workload, obs.Rollout
	name, err := p.RolloutNaming(ctx, w.Row.GVK.GroupKind(), types.NamespacedName{Namespace: ro.Namespace, Name: w.Object.GetName()})
	if err == nil && name == ro.Name {
		obs.Facts.Sets = w
	}
	return err
}

func (p passes) readWorkload(ctx context.Context, obs *Observation, row workload.Row) (*cluster.Workload, error) {
	namespace, name := obs.Rollout.Namespace, obs.Rollout.Spec.WorkloadRef.Name
	if planner.Unbound(obs.Rollout) {
		if err := p.CatchUp(ctx, row, namespace, name); err != nil {
			return nil, err
		}
	}
	return p.Workload(ctx, row, namespace, name, planner.KnownOf(obs.Rollout, obs.release()))
}

// absent reports whether no workload of the kind can be read. What a release was under
// way of is gone then, but not if it is only that it may not be read.
func (p passes) absent(ctx context.Context, obs *Observation, row workload.Row) (bool, error) {
	absence, err := p.Absent(ctx, row)
	if err != nil || absence.Why == "" {
		return false, err
	}
	obs.unread = absence.Forbidden
	return true, without(obs, absence.Why, absence.Forbidden)
}

// without goes on where the workload cannot be read, though it may be there.
func without(obs *Observation, why string, there bool) error {
	phase := obs.Rollout.Status.Phase
	atRest := phase == "" || phase == rollouts.PhaseInitial || phase == rollouts.PhaseHealthy
	switch {
	case atRest && !leaves(obs.Rollout):
		obs.Facts.Unsupported = why
		obs.Facts.Workload = &planner.Workload{Settled: true, Labelled: true}
	case there && !atRest:
		return fmt.Errorf("reading the %s: %s", obs.Rollout.Spec.WorkloadRef.Kind, why)
	}
	return nil
}

// leaves reports whether a Rollout gives its workload back for good.
func leaves(r *rollouts.Rollout) bool { return r.DeletionTimestamp != nil || r.Spec.Disabled }

func unsupported(ref *rollouts.ObjectRef, style rollouts.Style) string {
	for _, row := range workload.Table {
		if found, ok := workload.Find(ref.APIVersion, ref.Kind, row.Style); ok {
			return fmt.Sprintf("the style %s is not served for a %s; use the style %s (spec.strategy.canary without enableExtraWorkloadForCanary, in v1alpha1 the annotation %s: partition)",
				style, ref.Kind, found.Style, rollouts.AnnotationRollingStyle)
		}
	}
	return fmt.Sprintf("spec.workloadRef names a %s of %s, which is not served; %s", ref.Kind, ref.APIVersion, workload.Served())
}

// observeTraffic reads the Services and routers of the plan, if it has any.
func (p passes) observeTraffic(ctx context.Context, obs *Observation, row workload.Row) error {
	objects, ref := traffic.ObjectsOfRollout(obs.Rollout, cluster.OwnedBy(obs.Rollout))
	if ref == nil {
		return nil
	}
	objects.RevisionKey = row.RevisionKey
	if obs.workload != nil {
		objects.TemplateLabels = obs.workload.Row.PodLabels(obs.workload.Object)
	}
	obs.objects = objects
	var err error
	if obs.objects.OtherReleases, err = p.Others(ctx, obs.Rollout); err != nil {
		return err
	}
	if err := p.ReadNetwork(ctx, obs.Rollout.Namespace, ref.Service, &obs.objects); err != nil {
		return err
	}
	_, plan := obs.Rollout.Spec.Strategy.Active()
	route := traffic.ObserveSteps(obs.objects, *ref, plan.Steps)
	obs.Facts.Route = &route
	obs.Facts.Originals, obs.Facts.Doubted = traffic.OriginalDigests(obs.objects), traffic.TamperedRouter(obs.objects)
	return nil
}

// observeRouting reads the TrafficRouting that a Rollout names, and finds others that
// still route for it. A Rollout that took its own finalizer on one for absent would
// end its release with the routes in place, so while a release is under way that
// is asked of the server.
func (p passes) observeRouting(ctx context.Context, r *rollouts.Rollout) (*planner.Routing, error) {
	name := ""
	if _, plan := r.Spec.Strategy.Active(); plan != nil {
		name = plan.TrafficRouting()
	}
	strays, err := p.LinkedTo(ctx, r)
	strays = slices.DeleteFunc(strays, func(stray string) bool { return stray == name })
	if err != nil || name == "" {
		return planner.RoutingFacts(name, r.Name, nil, strays), err
	}
	key := types.NamespacedName{Namespace: r.Namespace, Name: name}
	found, err := p.TrafficRouting(ctx, key)
	if err != nil {
		return nil, err
	}
	facts := planner.RoutingFacts(name, r.Name, found, strays)
	if facts.Linked || !r.Status.UnderWay() {
		return facts, nil
	}
	found, err = p.LiveTrafficRouting(ctx, key)
	return planner.RoutingFacts(name, r.Name, found, strays), err
}

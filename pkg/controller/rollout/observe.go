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
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/reconcile"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Pass is one pass over a Rollout: what was observed, and the objects that its changes are based on.
type Pass struct {
	Cluster
	Facts planner.Input
	// Rollout is the Rollout as it is stored now. Facts.Rollout is the Rollout as it was observed.
	Rollout *rollouts.Rollout
	// Batch is the BatchRelease; nil if there is none.
	Batch    *reconcile.Batch
	options  Options
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
func (p *Pass) again() time.Duration {
	switch {
	case p.unread:
		return unread
	case p.Batch != nil:
		return reconcile.Sooner(cluster.Again(p.objects), p.Batch.Again)
	default:
		return cluster.Again(p.objects)
	}
}

// release is the BatchRelease, or nil.
func (p *Pass) release() *rollouts.BatchRelease {
	if p.Batch == nil {
		return nil
	}
	return p.Batch.Release
}

// Observe reads a Rollout and everything that takes part in its release. It returns nil if the Rollout
// does not exist.
func Observe(ctx context.Context, c Cluster, now time.Time, options Options, key types.NamespacedName) (*Pass, error) {
	ro, err := c.Rollout(ctx, key)
	if err != nil || ro == nil {
		return nil, err
	}
	p := &Pass{Cluster: c, options: options, Rollout: ro, Facts: planner.Input{Now: now, Rollout: ro}}
	if err := errors.Join(p.observeBatch(ctx), p.observeAdmission(ctx)); err != nil {
		return nil, err
	}
	row, err := p.observeWorkload(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(p.observeTraffic(ctx, row), p.observePods(ctx)); err != nil {
		return nil, err
	}
	if p.Facts.Routing, err = p.observeRouting(ctx, ro); err != nil {
		return nil, err
	}
	if err := p.observeChecks(ctx); err != nil {
		return nil, err
	}
	// A release does not wait for its history. What is not known to be filed is
	// filed again, which changes nothing.
	if p.Facts.Histories, err = p.Histories(ctx, ro); err != nil {
		logf.FromContext(ctx).Error(err, "Going on without histories")
	}
	return p, nil
}

// observeBatch reads the BatchRelease of the Rollout's name, which may be another's.
func (p *Pass) observeBatch(ctx context.Context) error {
	b, err := p.BatchReleaseOf(ctx, p.Rollout)
	switch {
	case err != nil:
		return err
	case planner.Owns(p.Rollout, b):
		p.Batch, p.Facts.Batch = &reconcile.Batch{Release: b}, planner.BatchFacts(b)
	case b != nil:
		p.Facts.BatchNameConflict = planner.BatchNameConflict(b)
	}
	return nil
}

// observePods reads how far the batch is. Without a BatchRelease it is what a first one
// would find.
func (p *Pass) observePods(ctx context.Context) error {
	facts := planner.BatchInput{Now: p.Facts.Now, OwnedByRollout: true, RolloutExists: true, Labels: p.options.Labels}
	if p.Batch == nil {
		facts.Workload = p.Facts.Workload
		p.Facts.BatchInput = &facts
		return nil
	}
	facts.Release = p.Batch.Release
	p.Batch.Facts = facts
	readable, err := reconcile.ObserveBatch(ctx, p.Cluster, p.Batch, p.workload)
	if readable {
		p.Facts.BatchInput = &p.Batch.Facts
	}
	return err
}

// observeAdmission reads what makes updates of the workload be held.
func (p *Pass) observeAdmission(ctx context.Context) error {
	var err error
	if p.entry, err = p.Entry(ctx, types.NamespacedName{Namespace: p.Rollout.Namespace, Name: p.Rollout.Name}, p.Rollout.Spec.WorkloadRef); err != nil {
		return err
	}
	p.Facts.Indexed, p.Facts.Listed = p.entry.Right, p.entry.Listed
	p.Facts.Unprotected, err = p.Unprotected(ctx, p.Rollout, p.entry.Unlisted)
	return err
}

// observeWorkload finds the row of the workload and reads it.
func (p *Pass) observeWorkload(ctx context.Context) (workload.Row, error) {
	ref := p.Rollout.Spec.WorkloadRef
	if ref == nil {
		p.Facts.Unsupported = "spec.workloadRef is missing"
		return workload.Row{}, nil
	}
	style := rollouts.StyleFor(&p.Rollout.Spec.Strategy, ref)
	row, ok := workload.Find(ref.APIVersion, ref.Kind, style)
	if !ok {
		p.Facts.Unsupported = unsupported(ref, style)
		// The object is read all the same where its kind is known, so that a
		// workload that is there is not taken for gone.
		if row, ok = workload.Find(ref.APIVersion, ref.Kind, rollouts.StylePartition); !ok {
			if !leaves(p.Rollout) { // else there is nothing to give back
				p.Facts.Workload = &planner.Workload{Settled: true, Labelled: true}
			}
			return workload.Row{}, nil
		}
	}
	if absent, err := p.absent(ctx, row); absent || err != nil {
		return workload.Row{}, err
	}
	w, err := p.readWorkload(ctx, row)
	if decodeError, ok := errors.AsType[*cluster.DecodeError](err); ok {
		return workload.Row{}, p.continueWithout(decodeError.Why, true)
	}
	if err != nil || w == nil {
		return row, err
	}
	facts := w.Facts()
	p.workload, p.Facts.Workload = w, &facts
	return row, p.observeSizing(ctx)
}

// observeSizing has the sizes of ReplicaSets decided here, where it is this Rollout that
// releases the workload.
func (p *Pass) observeSizing(ctx context.Context) error {
	w, ro := p.workload, p.Rollout
	name, err := p.RolloutNaming(ctx, w.Row.GVK.GroupKind(), types.NamespacedName{Namespace: ro.Namespace, Name: w.Object.GetName()})
	if err == nil && name == ro.Name {
		p.Facts.ReplicaSets = w
	}
	return err
}

func (p *Pass) readWorkload(ctx context.Context, row workload.Row) (*cluster.Workload, error) {
	namespace, name := p.Rollout.Namespace, p.Rollout.Spec.WorkloadRef.Name
	if planner.LacksAbortedRevision(p.Rollout) {
		if err := p.CatchUp(ctx, row, namespace, name); err != nil {
			return nil, err
		}
	}
	return p.Workload(ctx, row, namespace, name, planner.HoldStateOf(p.Rollout, p.release()))
}

// absent reports whether no workload of the kind can be read. What a release was under
// way of is gone then, but not if it is only that it may not be read.
func (p *Pass) absent(ctx context.Context, row workload.Row) (bool, error) {
	absence, err := p.Absent(ctx, row)
	if err != nil || absence.Why == "" {
		return false, err
	}
	p.unread = absence.Forbidden
	return true, p.continueWithout(absence.Why, absence.Forbidden)
}

// continueWithout goes on where the workload cannot be read, though it may be there.
func (p *Pass) continueWithout(why string, there bool) error {
	phase := p.Rollout.Status.Phase
	atRest := phase == "" || phase == rollouts.PhaseInitial || phase == rollouts.PhaseHealthy
	switch {
	case atRest && !leaves(p.Rollout):
		p.Facts.Unsupported = why
		p.Facts.Workload = &planner.Workload{Settled: true, Labelled: true}
	case there && !atRest:
		return fmt.Errorf("reading the %s: %s", p.Rollout.Spec.WorkloadRef.Kind, why)
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
	return fmt.Sprintf("spec.workloadRef names a %s of %s, which is not served; %s", ref.Kind, ref.APIVersion, workload.DescribeKinds())
}

// observeTraffic reads the Services and routers of the plan, if it has any.
func (p *Pass) observeTraffic(ctx context.Context, row workload.Row) error {
	objects, ref := traffic.ObjectsOfRollout(p.Rollout, cluster.OwnedBy(p.Rollout))
	if ref == nil {
		return nil
	}
	objects.RevisionKey = row.RevisionKey
	if p.workload != nil {
		objects.TemplateLabels = p.workload.Row.PodLabels(p.workload.Object)
	}
	p.objects = objects
	var err error
	if p.objects.OtherReleases, err = p.Others(ctx, p.Rollout); err != nil {
		return err
	}
	if err := p.ReadNetwork(ctx, p.Rollout.Namespace, ref.Service, &p.objects); err != nil {
		return err
	}
	_, plan := p.Rollout.Spec.Strategy.Active()
	route := traffic.ObserveSteps(p.objects, *ref, plan.Steps)
	p.Facts.Route = &route
	p.Facts.Originals, p.Facts.TamperedRecord = traffic.OriginalDigests(p.objects), traffic.TamperedRouter(p.objects)
	return nil
}

// observeRouting reads the TrafficRouting that a Rollout names, and finds others that
// still route for it. A Rollout that took its own finalizer on one for absent would
// end its release with the routes in place, so while a release is under way that
// is asked of the server.
func (p *Pass) observeRouting(ctx context.Context, r *rollouts.Rollout) (*planner.Routing, error) {
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

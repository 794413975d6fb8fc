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
	reconcile.Defaults
	Facts planner.Input
	// Rollout is the Rollout as it is stored now. Facts.Rollout is the Rollout as it was observed.
	Rollout *rollouts.Rollout
	// Batch is the BatchRelease; nil if there is none.
	Batch    *reconcile.Batch
	options  Options
	entry    *cluster.IndexEntry
	workload *cluster.Workload
	objects  traffic.Objects
	// isWorkloadForbidden reports whether weir-controller has no permission to read the workload.
	isWorkloadForbidden bool
}

// forbiddenRequeueDelay is the time until the next attempt to read a workload without permission. No watch
// event announces a new permission.
const forbiddenRequeueDelay = 10 * time.Second

// requeueDelay returns the time until the next look at objects that cannot be read now, and at pods that
// may still become ready; zero if there are none.
func (p *Pass) requeueDelay() time.Duration {
	switch {
	case p.isWorkloadForbidden:
		return forbiddenRequeueDelay
	case p.Batch != nil:
		return reconcile.Sooner(cluster.RouterRequeueDelay(p.objects), p.Batch.RequeueAfter)
	default:
		return cluster.RouterRequeueDelay(p.objects)
	}
}

// batchRelease returns the BatchRelease, or nil if there is none.
func (p *Pass) batchRelease() *rollouts.BatchRelease {
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
	if err := errors.Join(p.observeTraffic(ctx, row), p.observeBatchInput(ctx)); err != nil {
		return nil, err
	}
	if p.Facts.Routing, err = p.observeTrafficRouting(ctx, ro); err != nil {
		return nil, err
	}
	if err := p.observeChecks(ctx); err != nil {
		return nil, err
	}
	// A release does not wait for its history. If a stored history is not known here, it is stored again,
	// which changes nothing.
	if p.Facts.Histories, err = p.Histories(ctx, ro); err != nil {
		logf.FromContext(ctx).Error(err, "Going on without histories")
	}
	return p, nil
}

// observeBatch reads the BatchRelease that has the Rollout's name. Another object may own it.
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

// observeBatchInput reads the input of batch decisions. Without a BatchRelease it prepares the input for
// the first one.
func (p *Pass) observeBatchInput(ctx context.Context) error {
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

// observeAdmission reads the entry in the index of the policies, and whether admission holds updates of the
// workload.
func (p *Pass) observeAdmission(ctx context.Context) error {
	var err error
	if p.entry, err = p.IndexEntry(ctx, types.NamespacedName{Namespace: p.Rollout.Namespace, Name: p.Rollout.Name}, p.Rollout.Spec.WorkloadRef); err != nil {
		return err
	}
	p.Facts.Indexed, p.Facts.Listed = p.entry.IsCorrect, p.entry.IsListed
	p.Facts.Unprotected, err = p.MissingAdmission(ctx, p.Rollout, p.entry.UnlistedReason)
	return err
}

// observeWorkload finds the workload's row in the table of supported workloads, and reads the workload.
func (p *Pass) observeWorkload(ctx context.Context) (workload.Row, error) {
	ref := p.Rollout.Spec.WorkloadRef
	if ref == nil {
		p.Facts.Unsupported = "spec.workloadRef is missing"
		return workload.Row{}, nil
	}
	style := rollouts.StyleFor(&p.Rollout.Spec.Strategy, ref)
	row, ok := workload.Find(ref.APIVersion, ref.Kind, style)
	if !ok {
		p.Facts.Unsupported = unsupportedReason(ref, style)
		// If the kind is supported in the partition style, the workload is read all the same. Otherwise an
		// existing workload would count as deleted.
		if row, ok = workload.Find(ref.APIVersion, ref.Kind, rollouts.StylePartition); !ok {
			if !restoresWorkload(p.Rollout) { // otherwise there is no workload to restore
				p.Facts.Workload = &planner.Workload{Settled: true, Labelled: true}
			}
			return workload.Row{}, nil
		}
	}
	if absent, err := p.isKindUnavailable(ctx, row); absent || err != nil {
		return workload.Row{}, err
	}
	w, err := p.readWorkload(ctx, row)
	if decodeError, ok := errors.AsType[*cluster.DecodeError](err); ok {
		return workload.Row{}, p.continueWithoutWorkload(decodeError.Reason, true)
	}
	if err != nil || w == nil {
		return row, err
	}
	facts := w.Facts()
	p.workload, p.Facts.Workload = w, &facts
	return row, p.observeReplicaSets(ctx)
}

// observeReplicaSets lets the planner scale the workload's ReplicaSets, if this Rollout releases the
// workload. Another Rollout may reference the same workload.
func (p *Pass) observeReplicaSets(ctx context.Context) error {
	w, ro := p.workload, p.Rollout
	name, err := p.RolloutOfWorkload(ctx, w.Row.GVK.GroupKind(), types.NamespacedName{Namespace: ro.Namespace, Name: w.Object.GetName()})
	if err == nil && name == ro.Name {
		p.Facts.ReplicaSets = w
	}
	return err
}

// readWorkload reads the workload, or returns nil if it does not exist. After an abort without a recorded
// revision, the pass must not use a stale template from the cache.
func (p *Pass) readWorkload(ctx context.Context, row workload.Row) (*cluster.Workload, error) {
	namespace, name := p.Rollout.Namespace, p.Rollout.Spec.WorkloadRef.Name
	if planner.LacksAbortedRevision(p.Rollout) {
		if err := p.RequireFreshWorkload(ctx, row, namespace, name); err != nil {
			return nil, err
		}
	}
	return p.Workload(ctx, row, namespace, name, planner.HoldStateOf(p.Rollout, p.batchRelease()))
}

// isKindUnavailable reports whether no workload of the kind can be read. If the cluster does not serve the
// kind, the workload is gone. If only the permission is missing, the workload may still exist.
func (p *Pass) isKindUnavailable(ctx context.Context, row workload.Row) (bool, error) {
	absence, err := p.CheckAvailability(ctx, row)
	if err != nil || absence.Reason == "" {
		return false, err
	}
	p.isWorkloadForbidden = absence.Forbidden
	return true, p.continueWithoutWorkload(absence.Reason, absence.Forbidden)
}

// continueWithoutWorkload prepares a pass without a workload. A Rollout at rest reports the reason as
// unsupported. During a release it returns an error if the workload may exist; otherwise the workload
// counts as deleted.
func (p *Pass) continueWithoutWorkload(why string, mayExist bool) error {
	phase := p.Rollout.Status.Phase
	atRest := phase == "" || phase == rollouts.PhaseInitial || phase == rollouts.PhaseHealthy
	switch {
	case atRest && !restoresWorkload(p.Rollout):
		p.Facts.Unsupported = why
		p.Facts.Workload = &planner.Workload{Settled: true, Labelled: true}
	case mayExist && !atRest:
		return fmt.Errorf("reading the %s: %s", p.Rollout.Spec.WorkloadRef.Kind, why)
	}
	return nil
}

// restoresWorkload reports whether a Rollout stops managing its workload, because the Rollout is disabled
// or being deleted.
func restoresWorkload(r *rollouts.Rollout) bool { return r.DeletionTimestamp != nil || r.Spec.Disabled }

// unsupportedReason returns the message that Weir cannot release the workload in the style, or not at all.
func unsupportedReason(ref *rollouts.ObjectRef, style rollouts.Style) string {
	for _, row := range workload.Table {
		if found, ok := workload.Find(ref.APIVersion, ref.Kind, row.Style); ok {
			return fmt.Sprintf("the style %s is not served for a %s; use the style %s (spec.strategy.canary without enableExtraWorkloadForCanary, in v1alpha1 the annotation %s: partition)",
				style, ref.Kind, found.Style, rollouts.AnnotationRollingStyle)
		}
	}
	return fmt.Sprintf("spec.workloadRef names a %s of %s, which is not served; %s", ref.Kind, ref.APIVersion, workload.DescribeKinds())
}

// observeTraffic reads the Services and routers of the plan, if the plan has any.
func (p *Pass) observeTraffic(ctx context.Context, row workload.Row) error {
	objects, ref := traffic.ObjectsOfRollout(p.Rollout, cluster.OwnerReferenceTo(p.Rollout))
	if ref == nil {
		return nil
	}
	objects.RevisionKey = row.RevisionKey
	if p.workload != nil {
		objects.TemplateLabels = p.workload.Row.PodLabels(p.workload.Object)
	}
	p.objects = objects
	var err error
	if p.objects.OtherReleases, err = p.OtherReleases(ctx, p.Rollout); err != nil {
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

// observeTrafficRouting reads the TrafficRouting that a Rollout references, and finds other
// TrafficRoutings that still have the finalizer of the Rollout. During a release it asks the server if the
// cache does not show the finalizer. A pass that wrongly missed its finalizer would end the release and
// leave the routes in place.
func (p *Pass) observeTrafficRouting(ctx context.Context, r *rollouts.Rollout) (*planner.Routing, error) {
	name := ""
	if _, plan := r.Spec.Strategy.Active(); plan != nil {
		name = plan.TrafficRouting()
	}
	strays, err := p.LinkedTrafficRoutings(ctx, r)
	strays = slices.DeleteFunc(strays, func(stray string) bool { return stray == name })
	if err != nil || name == "" {
		return planner.NewRouting(name, r.Name, nil, strays), err
	}
	key := types.NamespacedName{Namespace: r.Namespace, Name: name}
	found, err := p.TrafficRouting(ctx, key)
	if err != nil {
		return nil, err
	}
	facts := planner.NewRouting(name, r.Name, found, strays)
	if facts.Linked || !r.Status.UnderWay() {
		return facts, nil
	}
	found, err = p.LiveTrafficRouting(ctx, key)
	return planner.NewRouting(name, r.Name, found, strays), err
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// observation is one pass' view, with the objects that its changes are based on.
type observation struct {
	facts    planner.Observed
	rollout  *rollouts.Rollout
	batch    *rollouts.BatchRelease
	entry    *cluster.Entry
	workload *cluster.Workload
	objects  traffic.Objects
	// unread reports whether the workload may not be read.
	unread bool
}

// again is how soon to look again at what is to be read and cannot be.
func (o *observation) again() time.Duration {
	if o.unread {
		return unread
	}
	return cluster.Again(o.objects)
}

func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*observation, error) {
	ro, err := r.Server.Rollout(ctx, key)
	if err != nil || ro == nil {
		return nil, err
	}
	obs := &observation{rollout: ro, facts: planner.Observed{Now: r.Clock.Now(), Rollout: ro}}
	if err := errors.Join(r.observeBatch(ctx, obs), r.observeAdmission(ctx, obs)); err != nil {
		return nil, err
	}
	row, err := r.observeWorkload(ctx, obs)
	if err != nil {
		return nil, err
	}
	if err := r.observeTraffic(ctx, obs, row); err != nil {
		return nil, err
	}
	if obs.facts.Routing, err = r.Server.RoutingOf(ctx, ro); err != nil {
		return nil, err
	}
	// A release does not wait for its history. What is not known to be filed is
	// filed again, which changes nothing.
	if obs.facts.Histories, err = r.Server.Histories(ctx, ro); err != nil {
		logf.FromContext(ctx).Error(err, "Going on without histories")
	}
	return obs, nil
}

// observeBatch reads the BatchRelease of the Rollout's name, which may be another's.
func (r *Reconciler) observeBatch(ctx context.Context, obs *observation) error {
	b, err := r.Server.BatchReleaseOf(ctx, obs.rollout)
	switch {
	case err != nil:
		return err
	case planner.Owns(obs.rollout, b):
		obs.batch, obs.facts.Batch = b, planner.BatchFacts(b)
	case b != nil:
		obs.facts.Occupied = planner.Occupied(b)
	}
	return nil
}

// observeAdmission reads what makes updates of the workload be held.
func (r *Reconciler) observeAdmission(ctx context.Context, obs *observation) error {
	var err error
	if obs.entry, err = r.Server.Entry(ctx, types.NamespacedName{Namespace: obs.rollout.Namespace, Name: obs.rollout.Name}, obs.rollout.Spec.WorkloadRef); err != nil {
		return err
	}
	obs.facts.Indexed, obs.facts.Listed = obs.entry.Right, obs.entry.Listed
	resource, err := r.Server.Resource(obs.rollout.Spec.WorkloadRef)
	if err != nil {
		return err
	}
	obs.facts.Unprotected, err = r.AdmissionStatus.Missing(ctx, resource, obs.entry.Unlisted)
	return err
}

// observeWorkload finds the row of the workload and reads it.
func (r *Reconciler) observeWorkload(ctx context.Context, obs *observation) (workload.Row, error) {
	ref := obs.rollout.Spec.WorkloadRef
	if ref == nil {
		obs.facts.Unsupported = "spec.workloadRef is missing"
		return workload.Row{}, nil
	}
	style := rollouts.StyleFor(&obs.rollout.Spec.Strategy, ref)
	row, ok := workload.Find(ref.APIVersion, ref.Kind, style)
	if !ok {
		obs.facts.Unsupported = unsupported(ref, style)
		// The object is read all the same where its kind is known, so that a
		// workload that is there is not taken for gone.
		if row, ok = workload.Find(ref.APIVersion, ref.Kind, rollouts.StylePartition); !ok {
			obs.facts.Workload = &planner.Workload{Settled: true, Labelled: true}
			return workload.Row{}, nil
		}
	}
	if absent, err := r.absent(ctx, obs, row); absent || err != nil {
		return workload.Row{}, err
	}
	w, err := r.readWorkload(ctx, obs, row)
	if decodeError, ok := errors.AsType[*cluster.DecodeError](err); ok {
		return workload.Row{}, without(obs, decodeError.Why, true)
	}
	if err != nil || w == nil {
		return row, err
	}
	facts := w.Facts()
	obs.workload, obs.facts.Workload = w, &facts
	return row, nil
}

func (r *Reconciler) readWorkload(ctx context.Context, obs *observation, row workload.Row) (*cluster.Workload, error) {
	namespace, name := obs.rollout.Namespace, obs.rollout.Spec.WorkloadRef.Name
	if planner.Unbound(obs.rollout) {
		if err := r.Server.CatchUp(ctx, row, namespace, name); err != nil {
			return nil, err
		}
	}
	return r.Server.Workload(ctx, row, namespace, name, planner.KnownOf(obs.rollout, obs.batch))
}

// absent reports whether no workload of the kind can be read. What a release was under
// way of is gone then, but not if it is only that it may not be read.
func (r *Reconciler) absent(ctx context.Context, obs *observation, row workload.Row) (bool, error) {
	absence, err := r.kinds.Absent(ctx, r.Server, row)
	if err != nil || absence.Why == "" {
		return false, err
	}
	obs.unread = absence.Forbidden
	return true, without(obs, absence.Why, absence.Forbidden)
}

// without goes on where the workload cannot be read, though it may be there.
func without(obs *observation, why string, there bool) error {
	phase := obs.rollout.Status.Phase
	atRest := phase == "" || phase == rollouts.PhaseInitial || phase == rollouts.PhaseHealthy
	switch {
	case atRest && obs.rollout.DeletionTimestamp == nil && !obs.rollout.Spec.Disabled:
		obs.facts.Unsupported = why
		obs.facts.Workload = &planner.Workload{Settled: true, Labelled: true}
	case there && !atRest:
		return fmt.Errorf("reading the %s: %s", obs.rollout.Spec.WorkloadRef.Kind, why)
	}
	return nil
}

func unsupported(ref *rollouts.ObjectRef, style rollouts.Style) string {
	for _, row := range workload.Table {
		if found, ok := workload.Find(ref.APIVersion, ref.Kind, row.Style); ok {
			return fmt.Sprintf("the style %s is not served for a %s; use the style %s (spec.strategy.canary without enableExtraWorkloadForCanary, in v1alpha1 the annotation %s: partition)",
				style, ref.Kind, found.Style, rollouts.AnnotationRollingStyle)
		}
	}
	return fmt.Sprintf("spec.workloadRef names a %s of %s, which is not served; a Deployment, a StatefulSet or a DaemonSet of apps/v1 is, a CloneSet or a DaemonSet of apps.kruise.io, or a StatefulSet of any group", ref.Kind, ref.APIVersion)
}

// observeTraffic reads the Services and routers of the plan, if it has any.
func (r *Reconciler) observeTraffic(ctx context.Context, obs *observation, row workload.Row) error {
	style, release := obs.rollout.Spec.Strategy.Active()
	if release == nil || len(release.TrafficRoutings) == 0 {
		return nil
	}
	ref := release.TrafficRoutings[0]
	obs.objects = traffic.Objects{
		Owner:       cluster.OwnedByRollout(obs.rollout),
		RevisionKey: row.RevisionKey,
		Shared:      release.DisableCanaryService,
		Routers:     traffic.Routers(ref, "spec.strategy."+style.Key()+".trafficRoutings[0]"),
		Held:        obs.rollout.Status.Network != nil,
		Originals:   planner.Originals(obs.rollout),
		Made:        planner.Made(obs.rollout),
	}
	if obs.workload != nil {
		obs.objects.Template = obs.workload.Row.PodLabels(obs.workload.Object)
	}
	if p := obs.rollout.Status.Active(); p != nil {
		obs.objects.StableRevision = p.StableRevision
	}
	var err error
	if obs.objects.Others, err = r.Server.Others(ctx, obs.rollout); err != nil {
		return err
	}
	if m := release.PodTemplateMetadata; m != nil && row.Style == rollouts.StyleCanary {
		obs.objects.PodLabels = m.Labels
	}
	if err := r.network.Read(ctx, obs.rollout.Namespace, ref.Service, &obs.objects); err != nil {
		return err
	}
	route := traffic.ObserveSteps(obs.objects, ref, release.Steps)
	obs.facts.Route = &route
	obs.facts.Originals, obs.facts.Doubted = traffic.Originals(obs.objects), traffic.Doubted(obs.objects)
	return nil
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/analysis"
	"github.com/weir-rollouts/weir/pkg/metric"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Measurer measures for the checks of releases, outside of the passes.
type Measurer interface {
	// Measurements returns the checks of a Rollout's plan with the measurements of each.
	Measurements(context.Context, *rollouts.Rollout) ([]planner.MeasuredCheck, error)
	// SetRequests replaces the measurement requests of a Rollout.
	SetRequests(rollout types.NamespacedName, subject analysis.Subject, requests []planner.MeasurementRequest)
}

// Measurements implements Reader.
func (s liveCluster) Measurements(ctx context.Context, r *rollouts.Rollout) ([]planner.MeasuredCheck, error) {
	if s.r.Measurer == nil {
		return nil, nil
	}
	return s.r.Measurer.Measurements(ctx, r)
}

// observeChecks reads the measurements and, during a release with checks, the health of the pods.
func (p *Pass) observeChecks(ctx context.Context) (err error) {
	if p.Facts.Measured, err = p.Measurements(ctx, p.Rollout); err != nil {
		return err
	}
	p.Facts.PodsCheck = p.options.PodsCheck
	progress, w := p.Rollout.Status.Active(), p.workload
	if w == nil || !p.needsPodHealth(p.Rollout, progress) {
		return nil
	}
	since := p.Rollout.CreationTimestamp.Time
	if n := len(p.Rollout.Status.Releases); n > 0 {
		since = p.Rollout.Status.Releases[n-1].StartTime.Time
	}
	newPods, err := p.Pods(ctx, w, progress.PodTemplateHash)
	if err != nil {
		return err
	}
	stablePods, err := p.Pods(ctx, w, progress.StableRevision)
	if err != nil {
		return err
	}
	p.Facts.Pods = &planner.PodHealthByRevision{New: workload.ObserveHealth(newPods, since), Stable: workload.ObserveHealth(stablePods, since)}
	return nil
}

// needsPodHealth reports whether a check needs the health of the pods, and there may be new pods.
func (p *Pass) needsPodHealth(ro *rollouts.Rollout, progress *rollouts.Progress) bool {
	_, plan := ro.Spec.Strategy.Active()
	hasCheck := plan != nil && (plan.Analysis != nil || p.options.PodsCheck != "")
	return hasCheck && ro.Status.Phase == rollouts.PhaseProgressing && progress != nil && progress.PodTemplateHash != ""
}

// requestMeasurements requests the measurements that a decision needs.
func (r *Reconciler) requestMeasurements(ctx context.Context, p *Pass, d planner.Decision) {
	if r.Measurer == nil {
		return
	}
	subject := analysis.Subject{UID: p.Rollout.UID}
	if len(d.MeasurementRequests) > 0 {
		subject = r.measurementSubject(ctx, p, d)
	}
	r.Metrics.SetCheckResults(p.Rollout.Namespace, p.Rollout.Name, d.MeasurementRequests)
	r.Measurer.SetRequests(types.NamespacedName{Namespace: p.Rollout.Namespace, Name: p.Rollout.Name}, subject, d.MeasurementRequests)
}

// measurementSubject returns the description of the release for the measurement requests.
func (r *Reconciler) measurementSubject(ctx context.Context, p *Pass, d planner.Decision) analysis.Subject {
	s := analysis.Subject{UID: p.Rollout.UID, Rollout: p.Rollout.Name, Release: metric.Release{Namespace: p.Rollout.Namespace}}
	if w := p.workload; w != nil {
		s.Release.Workload = w.Object.GetName()
	}
	if progress := p.Rollout.Status.Active(); progress != nil {
		s.Revision = progress.PodTemplateHash
		s.Release.New.Pods = r.podsForQuery(ctx, p, progress.PodTemplateHash)
		s.Release.Stable.Pods = r.podsForQuery(ctx, p, progress.StableRevision)
	}
	s.Release.New.Service, s.Release.Stable.Service = serviceForQuery(p.objects.CanaryService), serviceForQuery(p.objects.Service)
	if d.MeasurementRequests[0].Try { // a trial measurement outside of a release: there is only one version
		s.Release.Stable.Pods = r.podsForQuery(ctx, p, p.Facts.Workload.StableRevision)
		s.Release.New, s.Release.StableOnly = s.Release.Stable, true
	}
	for _, router := range p.objects.Routers {
		kind := router.Kind.Kind
		if kind == "Ingress" {
			kind += "/" + router.Class
			s.Release.Ingresses = append(s.Release.Ingresses, router.Name)
		}
		s.Routers = append(s.Routers, kind)
	}
	return s
}

// serviceForQuery returns the name and the ports of a Service for a query.
func serviceForQuery(s *corev1.Service) metric.Service {
	if s == nil {
		return metric.Service{}
	}
	out := metric.Service{Name: s.Name}
	for _, port := range s.Spec.Ports {
		out.Ports = append(out.Ports, strconv.Itoa(int(port.Port)))
		if port.Name != "" {
			out.Ports = append(out.Ports, port.Name)
		}
	}
	return out
}

// podsForQuery returns an expression for the pods of a revision, for a query. It uses the names of the
// ReplicaSets or, if the workload has none, the names of the pods.
func (r *Reconciler) podsForQuery(ctx context.Context, p *Pass, revision string) metric.Pods {
	w := p.workload
	if w == nil || revision == "" {
		return ""
	}
	var sets, names []string
	for _, o := range w.Owned {
		if rs, ok := o.(*appsv1.ReplicaSet); ok && rs.Labels[w.Row.RevisionKey] == revision {
			sets = append(sets, rs.Name)
		}
	}
	pods, err := metric.PodsOfOwners(sets...)
	if len(sets) == 0 {
		found, failed := r.Server.Pods(ctx, w, revision)
		for i := range found {
			names = append(names, found[i].Name)
		}
		if pods, err = metric.PodsByName(names...); failed != nil {
			err = failed
		}
	}
	if err != nil {
		logf.FromContext(ctx).Error(err, "Measuring without the pods of a revision", "revision", revision)
		return ""
	}
	return pods
}

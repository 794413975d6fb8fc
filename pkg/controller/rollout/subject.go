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

// Measures measure beside the passes what checks are about.
type Measures interface {
	// Measured are the checks of the plan of a Rollout, with what was measured for each.
	Measured(context.Context, *rollouts.Rollout) ([]planner.Measured, error)
	// SetQuestions replaces the questions that are measured about a Rollout.
	SetQuestions(rollout types.NamespacedName, subject analysis.Subject, questions []planner.MeasurementRequest)
}

// Measured implements Reader.
func (s server) Measured(ctx context.Context, r *rollouts.Rollout) ([]planner.Measured, error) {
	if s.r.Measures == nil {
		return nil, nil
	}
	return s.r.Measures.Measured(ctx, r)
}

// observeChecks reads what was measured, and how the pods get on of a release under way.
func (p *Pass) observeChecks(ctx context.Context) (err error) {
	if p.Facts.Measured, err = p.Measured(ctx, p.Rollout); err != nil {
		return err
	}
	p.Facts.PodsCheck = p.options.PodsCheck
	progress, w := p.Rollout.Status.Active(), p.workload
	if w == nil || !p.looksAtPods(p.Rollout, progress) {
		return nil
	}
	since := p.Rollout.CreationTimestamp.Time
	if n := len(p.Rollout.Status.Releases); n > 0 {
		since = p.Rollout.Status.Releases[n-1].StartTime.Time
	}
	fresh, err := p.Pods(ctx, w, progress.PodTemplateHash)
	if err != nil {
		return err
	}
	stable, err := p.Pods(ctx, w, progress.StableRevision)
	if err != nil {
		return err
	}
	p.Facts.Pods = &planner.PodsOf{New: workload.ObserveHealth(fresh, since), Stable: workload.ObserveHealth(stable, since)}
	return nil
}

// looksAtPods reports whether somebody wants to know how pods get on, and there may be new ones.
func (p *Pass) looksAtPods(ro *rollouts.Rollout, progress *rollouts.Progress) bool {
	_, plan := ro.Spec.Strategy.Active()
	asked := plan != nil && (plan.Analysis != nil || p.options.PodsCheck != "")
	return asked && ro.Status.Phase == rollouts.PhaseProgressing && progress != nil && progress.PodTemplateHash != ""
}

// askMetrics requests the measurements that a decision needs.
func (r *Reconciler) askMetrics(ctx context.Context, p *Pass, d planner.Decision) {
	if r.Measures == nil {
		return
	}
	subject := analysis.Subject{UID: p.Rollout.UID}
	if len(d.MeasurementRequests) > 0 {
		subject = r.subject(ctx, p, d)
	}
	r.Metrics.SetCheckResults(p.Rollout.Namespace, p.Rollout.Name, d.MeasurementRequests)
	r.Measures.SetQuestions(types.NamespacedName{Namespace: p.Rollout.Namespace, Name: p.Rollout.Name}, subject, d.MeasurementRequests)
}

// subject returns the release that is measured.
func (r *Reconciler) subject(ctx context.Context, p *Pass, d planner.Decision) analysis.Subject {
	s := analysis.Subject{UID: p.Rollout.UID, Rollout: p.Rollout.Name, Release: metric.Release{Namespace: p.Rollout.Namespace}}
	if w := p.workload; w != nil {
		s.Release.Workload = w.Object.GetName()
	}
	if progress := p.Rollout.Status.Active(); progress != nil {
		s.Revision = progress.PodTemplateHash
		s.Release.New.Pods = r.podsOf(ctx, p, progress.PodTemplateHash)
		s.Release.Stable.Pods = r.podsOf(ctx, p, progress.StableRevision)
	}
	s.Release.New.Service, s.Release.Stable.Service = serviceOf(p.objects.CanaryService), serviceOf(p.objects.Service)
	if d.MeasurementRequests[0].Try { // there is one version
		s.Release.Stable.Pods = r.podsOf(ctx, p, p.Facts.Workload.StableRevision)
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

func serviceOf(s *corev1.Service) metric.Service {
	if s == nil {
		return metric.Service{}
	}
	of := metric.Service{Name: s.Name}
	for _, port := range s.Spec.Ports {
		of.Ports = append(of.Ports, strconv.Itoa(int(port.Port)))
		if port.Name != "" {
			of.Ports = append(of.Ports, port.Name)
		}
	}
	return of
}

// podsOf returns the pods of a revision for a query: by the names of its ReplicaSets or, if the workload
// has none, by their own names.
func (r *Reconciler) podsOf(ctx context.Context, p *Pass, revision string) metric.Pods {
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

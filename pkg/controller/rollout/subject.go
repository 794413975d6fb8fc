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
	"github.com/weir-rollouts/weir/pkg/controller/pass"
	"github.com/weir-rollouts/weir/pkg/metric"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Measures measures the checks of Rollouts; analysis.Runner implements it.
type Measures interface {
	// Measured are the checks of the plan of a Rollout, with what was measured for each.
	Measured(context.Context, *rollouts.Rollout) ([]planner.Measured, error)
	// SetQuestions replaces the questions that are measured about a Rollout.
	SetQuestions(rollout types.NamespacedName, subject analysis.Subject, questions []planner.Question)
}

// Measured implements Reader.
func (s server) Measured(ctx context.Context, r *rollouts.Rollout) ([]planner.Measured, error) {
	if s.r.Measures == nil {
		return nil, nil
	}
	return s.r.Measures.Measured(ctx, r)
}

// observeChecks reads what was measured, and how the pods get on of a release under way.
func (p passes) observeChecks(ctx context.Context, obs *Observation) (err error) {
	if obs.Facts.Measured, err = p.Measured(ctx, obs.Rollout); err != nil {
		return err
	}
	obs.Facts.PodsCheck = p.options.PodsCheck
	progress, w := obs.Rollout.Status.Active(), obs.workload
	if w == nil || !p.looksAtPods(obs.Rollout, progress) {
		return nil
	}
	since := obs.Rollout.CreationTimestamp.Time
	if n := len(obs.Rollout.Status.Releases); n > 0 {
		since = obs.Rollout.Status.Releases[n-1].StartTime.Time
	}
	fresh, err := p.Pods(ctx, w, progress.PodTemplateHash)
	if err != nil {
		return err
	}
	stable, err := p.Pods(ctx, w, progress.StableRevision)
	if err != nil {
		return err
	}
	obs.Facts.Pods = &planner.PodsOf{New: workload.Health(fresh, since), Stable: workload.Health(stable, since)}
	return nil
}

// looksAtPods reports whether somebody wants to know how pods get on, and there may be new ones.
func (p passes) looksAtPods(ro *rollouts.Rollout, progress *rollouts.Progress) bool {
	_, plan := ro.Spec.Strategy.Active()
	asked := plan != nil && (plan.Analysis != nil || p.options.PodsCheck != "")
	return asked && ro.Status.Phase == rollouts.PhaseProgressing && progress != nil && progress.PodTemplateHash != ""
}

// ask has measured what a decision asks for.
func (r *Reconciler) ask(ctx context.Context, obs *Observation, d pass.Decision[rollouts.RolloutStatus]) {
	if r.Measures == nil {
		return
	}
	subject := analysis.Subject{UID: obs.Rollout.UID}
	if len(d.Questions) > 0 {
		subject = r.subject(ctx, obs, d)
	}
	r.Metrics.SetCheckResults(obs.Rollout.Namespace, obs.Rollout.Name, d.Questions)
	r.Measures.SetQuestions(types.NamespacedName{Namespace: obs.Rollout.Namespace, Name: obs.Rollout.Name}, subject, d.Questions)
}

// subject is the release that is measured.
func (r *Reconciler) subject(ctx context.Context, obs *Observation, d pass.Decision[rollouts.RolloutStatus]) analysis.Subject {
	s := analysis.Subject{UID: obs.Rollout.UID, Rollout: obs.Rollout.Name, Release: metric.Release{Namespace: obs.Rollout.Namespace}}
	if w := obs.workload; w != nil {
		s.Release.Workload = w.Object.GetName()
	}
	p := obs.Rollout.Status.Active()
	if p != nil {
		s.Revision = p.PodTemplateHash
		s.Release.New.Pods = r.podsOf(ctx, obs, p.PodTemplateHash)
		s.Release.Stable.Pods = r.podsOf(ctx, obs, p.StableRevision)
	}
	s.Release.New.Service, s.Release.Stable.Service = serviceOf(obs.objects.CanaryService), serviceOf(obs.objects.Service)
	if d.Questions[0].Try { // there is one version
		s.Release.Stable.Pods = r.podsOf(ctx, obs, obs.Facts.Workload.StableRevision)
		s.Release.New, s.Release.StableOnly = s.Release.Stable, true
	}
	for _, router := range obs.objects.Routers {
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

// podsOf are the pods of a revision: those of its sets or, where a workload has none, by
// their names.
func (r *Reconciler) podsOf(ctx context.Context, obs *Observation, revision string) metric.Pods {
	w := obs.workload
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

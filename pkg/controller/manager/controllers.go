// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/weir-rollouts/weir/pkg/controller/analysis"
	"github.com/weir-rollouts/weir/pkg/controller/batchrelease"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/deployment"
	"github.com/weir-rollouts/weir/pkg/controller/metrics"
	"github.com/weir-rollouts/weir/pkg/controller/orphan"
	"github.com/weir-rollouts/weir/pkg/controller/queue"
	"github.com/weir-rollouts/weir/pkg/controller/rollout"
	"github.com/weir-rollouts/weir/pkg/controller/trafficrouting"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// shared is what controllers are made of.
type shared struct {
	Options
	server    cluster.Server
	recorder  events.EventRecorder
	clock     clock.Clock
	beside    cache.Cache
	admission cluster.AdmissionStatus
	metrics   *metrics.Metrics
	measures  *analysis.Runner
	measured  chan event.GenericEvent
	atRest    queue.IsResting
}

// controller is a part of the manager that watches.
type controller interface {
	SetupWithManager(mgr ctrl.Manager) error
}

// controllers is the table of them.
var controllers = []struct {
	name string
	of   func(s shared) []controller
}{
	{"rollout", func(s shared) []controller {
		return []controller{&rollout.Reconciler{
			Server: s.server, Recorder: s.recorder, Clock: s.clock, Concurrency: s.Concurrency, Measures: s.measures, Measured: s.measured,
			Keep: planner.HistoryRetention{Limit: s.HistoryLimit, Age: s.HistoryAge}, Configuration: s.Configuration, Metrics: s.metrics,
			AtRest: s.atRest, Beside: s.beside, AdmissionStatus: s.admission,
			Options: rollout.Options{Labels: planner.PodLabels(s.PodLabels), PodsCheck: podsChecks[s.PodsCheck]},
		}}
	}},
	{"batchrelease", func(s shared) []controller {
		return []controller{&batchrelease.Reconciler{
			Server: s.server, Recorder: s.recorder, Clock: s.clock, Concurrency: s.Concurrency, Labels: planner.PodLabels(s.PodLabels),
		}}
	}},
	{"trafficrouting", func(s shared) []controller {
		return []controller{&trafficrouting.Reconciler{
			Server: s.server, Recorder: s.recorder, Clock: s.clock, Concurrency: s.Concurrency, Configuration: s.Configuration,
		}}
	}},
	{"deployment", func(s shared) []controller {
		return []controller{&deployment.Reconciler{Server: s.server, Concurrency: s.Concurrency}}
	}},
	{"orphan", orphans},
}

// orphans give back what nothing names any more, of each kind that the cluster serves.
func orphans(s shared) []controller {
	all := []controller{&orphan.OptionalKinds{Server: s.server, Recorder: s.recorder}}
	for _, row := range workload.Kinds() {
		if s.server.Native(row) {
			all = append(all, &orphan.Reconciler{Server: s.server, Recorder: s.recorder, Row: row})
		}
	}
	return all
}

// Names are those of all controllers.
func Names() []string {
	var names []string
	for _, c := range controllers {
		names = append(names, c.name)
	}
	return names
}

// setup adds the controllers to the manager. The returned function is never nil. It unregisters
// the metrics collector, so that setup can run again in this process.
func setup(ctx context.Context, mgr ctrl.Manager, o Options) (forget func(), _ error) {
	forget = func() {}
	s := shared{Options: o, clock: clock.RealClock{}, recorder: cluster.AggregateEvents(mgr.GetEventRecorder("weir"), mgr.GetScheme())}
	s.admission.Verdicts = &cluster.Verdicts{}
	var err error
	if s.metrics, err = metrics.New(ctrlmetrics.Registry); err != nil {
		return forget, fmt.Errorf("registering metrics: %w", err)
	}
	s.admission.Namespace = s.LeaderNamespace
	if s.admission.Policies, err = cluster.ServesPolicies(mgr.GetRESTMapper()); err != nil {
		return forget, fmt.Errorf("asking the cluster for policies: %w", err)
	}
	if s.beside, err = newCache(mgr, s.admission); err != nil {
		return forget, err
	}
	s.admission.Reader = s.beside
	if err := cluster.Index(ctx, mgr.GetFieldIndexer(), &appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.ControllerRevision{}, &corev1.Pod{}); err != nil {
		return forget, fmt.Errorf("indexing: %w", err)
	}
	api, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return forget, fmt.Errorf("creating the discovery client: %w", err)
	}
	reader := cluster.Reader{
		API:    api,
		Client: s.metrics.Counting(mgr.GetClient()), Live: mgr.GetAPIReader(), Indexes: s.beside, WriteTracker: cluster.NewWriteTracker(s.clock),
	}
	s.atRest = cluster.AtRest(ctx, reader)
	s.server = cluster.Server{Reader: reader, IndexWriter: &cluster.IndexWriter{}}
	collector := &metrics.Collector{Rollouts: cluster.AllRollouts(reader), Leads: mgr.Elected(), Clock: s.clock}
	if err := ctrlmetrics.Registry.Register(collector); err != nil {
		return forget, fmt.Errorf("registering metrics: %w", err)
	}
	forget = func() { ctrlmetrics.Registry.Unregister(collector) }
	if err := s.addMeasures(mgr); err != nil {
		return forget, err
	}
	return forget, addAll(mgr, s)
}

// addMeasures measures beside the passes over Rollouts.
func (s *shared) addMeasures(mgr ctrl.Manager) error {
	s.measured = make(chan event.GenericEvent)
	sources := analysis.NewCluster(mgr.GetClient(), mgr.GetAPIReader(), s.server.Client, s.SourceHosts, s.clock)
	s.measures = analysis.New(sources, clock.RealClock{}, s.measured)
	if err := mgr.Add(s.measures); err != nil {
		return fmt.Errorf("adding measures: %w", err)
	}
	return nil
}

func addAll(mgr ctrl.Manager, s shared) error {
	for _, row := range controllers {
		if !s.runs(row.name) {
			continue
		}
		for _, c := range row.of(s) {
			if err := c.SetupWithManager(mgr); err != nil {
				return fmt.Errorf("setting up %s: %w", row.name, err)
			}
		}
	}
	return nil
}

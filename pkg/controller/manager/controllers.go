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

// dependencies are what the controllers need.
type dependencies struct {
	Options
	server         cluster.Server
	recorder       events.EventRecorder
	clock          clock.Clock
	admissionCache cache.Cache
	admission      cluster.AdmissionStatus
	metrics        *metrics.Metrics
	analysis       *analysis.Runner
	measuredEvents chan event.GenericEvent
	atRest         queue.IsResting
}

// controller registers watches with the manager.
type controller interface {
	SetupWithManager(mgr ctrl.Manager) error
}

// controllers are all controllers by name.
var controllers = []struct {
	name string
	of   func(s dependencies) []controller
}{
	{"rollout", func(s dependencies) []controller {
		return []controller{&rollout.Reconciler{
			Server: s.server, Recorder: s.recorder, Clock: s.clock, Concurrency: s.Concurrency, Measurer: s.analysis, MeasurementEvents: s.measuredEvents,
			Retention: planner.HistoryRetention{Limit: s.HistoryLimit, Age: s.HistoryAge}, ReleaseAnnotations: s.releaseAnnotations(), ScriptNamespaces: s.Configuration, Metrics: s.metrics,
			IsResting: s.atRest, AdmissionCache: s.admissionCache, AdmissionStatus: s.admission,
			Options: rollout.Options{Labels: planner.PodLabels(s.PodLabels), PodsCheck: podsChecks[s.PodsCheck]},
		}}
	}},
	{"batchrelease", func(s dependencies) []controller {
		return []controller{&batchrelease.Reconciler{
			Server: s.server, Recorder: s.recorder, Clock: s.clock, Concurrency: s.Concurrency, Labels: planner.PodLabels(s.PodLabels),
		}}
	}},
	{"trafficrouting", func(s dependencies) []controller {
		return []controller{&trafficrouting.Reconciler{
			Server: s.server, Recorder: s.recorder, Clock: s.clock, Concurrency: s.Concurrency, ScriptNamespaces: s.Configuration,
		}}
	}},
	{"deployment", func(s dependencies) []controller {
		return []controller{&deployment.Reconciler{Server: s.server, Concurrency: s.Concurrency}}
	}},
	{"orphan", orphanControllers},
}

// orphanControllers returns the controllers that restore orphaned workloads, for each kind that the
// cluster serves.
func orphanControllers(s dependencies) []controller {
	all := []controller{&orphan.OptionalKinds{Server: s.server, Recorder: s.recorder}}
	for _, row := range workload.Kinds() {
		if s.server.IsNative(row) {
			all = append(all, &orphan.Reconciler{Server: s.server, Recorder: s.recorder, Row: row})
		}
	}
	return all
}

// Names returns the names of all controllers.
func Names() []string {
	var names []string
	for _, c := range controllers {
		names = append(names, c.name)
	}
	return names
}

// setUpControllers adds the controllers to the manager. The returned function is never nil. It
// unregisters the metrics collector, so that setUpControllers can run again in this process.
func setUpControllers(ctx context.Context, mgr ctrl.Manager, o Options) (forget func(), _ error) {
	forget = func() {}
	s := dependencies{Options: o, clock: clock.RealClock{}, recorder: cluster.AggregateEvents(mgr.GetEventRecorder("weir"), mgr.GetScheme())}
	s.admission.Comparisons = &cluster.ComparisonCache{}
	var err error
	if s.metrics, err = metrics.New(ctrlmetrics.Registry); err != nil {
		return forget, fmt.Errorf("registering metrics: %w", err)
	}
	s.admission.Namespace = s.LeaderNamespace
	if s.admission.HasPolicies, err = cluster.ServesPolicies(mgr.GetRESTMapper()); err != nil {
		return forget, fmt.Errorf("asking the cluster for policies: %w", err)
	}
	if s.admissionCache, err = newAdmissionCache(mgr, s.admission); err != nil {
		return forget, err
	}
	s.admission.Reader = s.admissionCache
	if err := cluster.RegisterIndexes(ctx, mgr.GetFieldIndexer(), &appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.ControllerRevision{}, &corev1.Pod{}); err != nil {
		return forget, fmt.Errorf("indexing: %w", err)
	}
	api, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return forget, fmt.Errorf("creating the discovery client: %w", err)
	}
	reader := cluster.Reader{
		API:    api,
		Client: s.metrics.CountWrites(mgr.GetClient()), Live: mgr.GetAPIReader(), Indexes: s.admissionCache, WriteTracker: cluster.NewWriteTracker(s.clock),
	}
	s.atRest = cluster.IsResting(ctx, reader)
	s.server = cluster.Server{Reader: reader, IndexWriter: &cluster.IndexWriter{}}
	collector := &metrics.Collector{Rollouts: cluster.AllRollouts(reader), Leads: mgr.Elected(), Clock: s.clock}
	if err := ctrlmetrics.Registry.Register(collector); err != nil {
		return forget, fmt.Errorf("registering metrics: %w", err)
	}
	forget = func() { ctrlmetrics.Registry.Unregister(collector) }
	if err := s.addAnalysis(mgr); err != nil {
		return forget, err
	}
	return forget, addControllers(mgr, s)
}

// addAnalysis adds the runner of analysis queries to the manager.
func (s *dependencies) addAnalysis(mgr ctrl.Manager) error {
	s.measuredEvents = make(chan event.GenericEvent)
	sources := analysis.NewCluster(mgr.GetClient(), mgr.GetAPIReader(), s.server.Client, s.SourceHosts, s.clock)
	s.analysis = analysis.New(sources, clock.RealClock{}, s.measuredEvents)
	if err := mgr.Add(s.analysis); err != nil {
		return fmt.Errorf("adding measures: %w", err)
	}
	if err := mgr.Add(sourceWatch{mgr.GetCache(), s.analysis.RetrySource}); err != nil {
		return fmt.Errorf("adding the watch of metric sources: %w", err)
	}
	return nil
}

func addControllers(mgr ctrl.Manager, s dependencies) error {
	for _, row := range controllers {
		if !s.isControllerEnabled(row.name) {
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

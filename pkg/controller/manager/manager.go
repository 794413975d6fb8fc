// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package manager runs the controllers, in a process of their own or in the process of weir-apiserver. It
// sets up what the controllers share: caches, lease, metrics and probes.
package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
	"github.com/weir-rollouts/weir/pkg/controller/lease"
	"github.com/weir-rollouts/weir/pkg/traffic"
	"github.com/weir-rollouts/weir/pkg/workload"
)

// Run runs the controllers until the context ends. If the lease is lost, Run returns
// lease.ErrLost. Run may be called again in the same process: goroutines of the earlier run cannot
// write, because their lease is stale.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = &warningLogger{}
	// Disable client-side rate limiting: the server's priority and fairness limits requests.
	config.QPS = -1
	config.Wrap(withoutCompression)
	held, err := guardByLease(ctx, config, o)
	if err != nil {
		return err
	}
	mgr, err := newManager(config, o, held)
	if err != nil {
		return err
	}
	forget, err := setUpControllers(ctx, mgr, o)
	defer forget()
	if err != nil {
		return err
	}
	err = startManager(ctx, mgr)
	if held != nil && ctx.Err() == nil {
		return held.WrapLost(err)
	}
	return err
}

// startManager runs the manager. A manager whose caches never sync does not stop with its context.
// The process can end without it, because each decision is stored.
func startManager(ctx context.Context, mgr ctrl.Manager) error {
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(2 * shutdownTimeout):
		return errors.New("stopping: the controllers did not end in time")
	}
}

// Another replica takes over leaseDuration after a leader was killed. Until then releases do not
// continue; serving traffic is not affected.
var (
	leaseDuration = 8 * time.Second
	renewDeadline = 5 * time.Second
	retryPeriod   = time.Second
	// shutdownTimeout is how long a running reconcile may take to end.
	shutdownTimeout = 3 * time.Second
)

func newManager(config *rest.Config, o Options, held *lease.Lease) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme, weir.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	var lock resourcelock.Interface
	if held != nil {
		lock = held
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: o.MetricsAddress, ExtraHandlers: profilingHandlers(o.Profiling)},
		HealthProbeBindAddress: o.ProbeAddress,
		LeaderElection:         o.LeaderElect,
		// The ID names the lease in metrics. The lock decides about leadership.
		LeaderElectionID:                    leaseName,
		LeaderElectionReleaseOnCancel:       true,
		LeaderElectionResourceLockInterface: lock,
		LeaseDuration:                       &leaseDuration,
		RenewDeadline:                       &renewDeadline,
		RetryPeriod:                         &retryPeriod,
		GracefulShutdownTimeout:             &shutdownTimeout,
		// An earlier Run in this process may have used the same controller names.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
		// Routers of kinds that not every cluster serves are read from a cache, like other objects.
		Client:         client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		MapperProvider: cluster.NewMapper(clock.RealClock{}),
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}:           {Transform: trimPod},
				&corev1.Service{}:       {Transform: trimService},
				cluster.NewDefinition(): {Transform: trimDefinition},
				&corev1.ConfigMap{}:     scriptConfigMaps(o.Configuration),
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding healthz: %w", err)
	}
	if err := mgr.AddReadyzCheck("caches", cachesSynced(mgr.GetCache())); err != nil {
		return nil, fmt.Errorf("adding readyz: %w", err)
	}
	return mgr, nil
}

// newAdmissionCache returns a cache for kinds of which the controller may read only a few names:
// the ConfigMap of the index, the webhook configuration and the admission policies.
func newAdmissionCache(mgr ctrl.Manager, admission cluster.AdmissionStatus) (cache.Cache, error) {
	of := func(name string) cache.ByObject {
		return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	}
	watched := map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: of(rollouts.IndexName),
		&admissionregistrationv1.MutatingWebhookConfiguration{}: of(cluster.WebhookName),
	}
	for _, policy := range admission.PolicyObjects() {
		watched[policy] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{"app.kubernetes.io/part-of": "weir"})}
	}
	c, err := ctrlcluster.New(mgr.GetConfig(), func(o *ctrlcluster.Options) {
		o.Scheme, o.HTTPClient = mgr.GetScheme(), mgr.GetHTTPClient()
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mgr.GetRESTMapper(), nil }
		o.Cache = cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: watched}
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache: %w", err)
	}
	if err := mgr.Add(c); err != nil {
		return nil, fmt.Errorf("adding a cache: %w", err)
	}
	return c.GetCache(), nil
}

// cachesSynced returns a check that fails until all caches have synced.
func cachesSynced(c cache.Cache) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	}
}

// scriptConfigMaps caches one ConfigMap of each namespace: the one with users' scripts.
func scriptConfigMaps(namespaces []string) cache.ByObject {
	by := cache.ByObject{Namespaces: map[string]cache.Config{}}
	for _, n := range namespaces {
		by.Namespaces[n] = cache.Config{FieldSelector: fields.OneTermEqualSelector("metadata.name", rollouts.ConfigurationName)}
	}
	return by
}

// trimDefinition removes metadata that may be large and that no controller reads.
func trimDefinition(o any) (any, error) {
	if o, ok := o.(metav1.Object); ok {
		o.SetManagedFields(nil)
		o.SetAnnotations(nil)
	}
	return o, nil
}

// trimService keeps only the managed fields of a Service that own its selector.
func trimService(o any) (any, error) {
	if o, ok := o.(metav1.Object); ok {
		o.SetManagedFields(slices.DeleteFunc(o.GetManagedFields(), func(by metav1.ManagedFieldsEntry) bool { return !traffic.OwnsSelector(by) }))
	}
	return o, nil
}

// trimPod keeps only the fields of a pod that say whether it is ready and why it does not run,
// because a cluster has many pods.
func trimPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	slim := &corev1.Pod{ObjectMeta: pod.ObjectMeta}
	slim.ManagedFields, slim.Annotations = nil, nil
	if cost, ok := pod.Annotations[corev1.PodDeletionCost]; ok {
		slim.Annotations = map[string]string{corev1.PodDeletionCost: cost}
	}
	slim.Status.Phase, slim.Status.Conditions = pod.Status.Phase, pod.Status.Conditions
	slim.Status.PodIPs = pod.Status.PodIPs // for checks by http, which ask pods only
	if workload.IsReadyOrTerminating(pod) && !slices.ContainsFunc(pod.Status.ContainerStatuses, hasRestarted) {
		return slim, nil
	}
	slim.Spec.NodeName = pod.Spec.NodeName
	slim.Status.Reason, slim.Status.Message = pod.Status.Reason, pod.Status.Message
	slim.Status.InitContainerStatuses = trimContainerStatuses(pod.Status.InitContainerStatuses)
	slim.Status.ContainerStatuses = trimContainerStatuses(pod.Status.ContainerStatuses)
	return slim, nil
}

func hasRestarted(c corev1.ContainerStatus) bool { return c.RestartCount > 0 }

func trimContainerStatuses(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, c := range all {
		out = append(out, corev1.ContainerStatus{Name: c.Name, Ready: c.Ready, RestartCount: c.RestartCount, State: c.State, LastTerminationState: c.LastTerminationState})
	}
	return out
}

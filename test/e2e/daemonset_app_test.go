// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// daemonSetApp is an application in a DaemonSet, on nodes of its own.
type daemonSetApp struct {
	*app
	original appsv1.DaemonSet
	nodes    int32
}

const rollingUpdate, onDelete = appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType

func startDaemonSetApp(t *testing.T, nodes int32, routed bool, owners func(*appsv1.DaemonSet), steps ...v1beta1.Step) *daemonSetApp {
	t.Helper()
	s := &daemonSetApp{app: newNamespace(t)}
	s.plan = plan{unavailable: 1, withTraffic: routed, grace: 1, steps: steps, customizeRollout: func(r *v1beta1.Rollout) {
		r.Spec.WorkloadRef.Kind = "DaemonSet"
	}}
	for range nodes {
		s.joinNode()
	}
	d := s.newDeployment()
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(1))
	d.Spec.Template.Spec.NodeSelector = map[string]string{"pool": s.namespace}
	d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpExists}}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.labels()},
		Spec:       appsv1.DaemonSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template, RevisionHistoryLimit: new(int32(0))},
	}
	if owners != nil {
		owners(set)
	}
	s.create(set)
	if routed {
		s.create(s.newService())
		s.create(s.newIngress())
	}
	s.eventually("the DaemonSet is ready", s.runsPods(versions{"v1": nodes}))
	s.original = *s.getDaemonSet()
	s.create(s.newRollout())
	return s
}

// joinNode adds a node for the DaemonSet.
func (s *daemonSetApp) joinNode() {
	s.t.Helper()
	node := fmt.Sprintf("%s-%d", s.namespace, s.nodes)
	s.nodes++
	s.addNode(node)
	s.t.Cleanup(func() {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		if err := client.IgnoreNotFound(testEnv.client.Delete(context.Background(), n)); err != nil {
			s.t.Error(err)
		}
	})
}

// createRollout creates the Rollout, and waits until it is Healthy.
func (s *daemonSetApp) createRollout() *daemonSetApp {
	s.t.Helper()
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.guard = watchPods(s.app)
	s.guard.atLeast(s.nodes - 1)
	return s
}

func (s *daemonSetApp) getDaemonSet() *appsv1.DaemonSet {
	s.t.Helper()
	set := &appsv1.DaemonSet{}
	if err := testEnv.client.Get(s.t.Context(), s.key(name), set); err != nil {
		s.t.Fatal(err)
	}
	return set
}

func (s *daemonSetApp) patchDaemonSet(body string) {
	s.t.Helper()
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	if err := testEnv.client.Patch(s.t.Context(), set, client.RawPatch(types.StrategicMergePatchType, []byte(body))); err != nil {
		s.t.Fatal(err)
	}
}

func (s *daemonSetApp) setVersion(version string) {
	s.t.Helper()
	s.patchDaemonSet(fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, image(version)))
}

// runsPods returns a check that exactly these pods exist, are ready, and are counted in the status.
func (s *daemonSetApp) runsPods(want versions) func(context.Context) error {
	maps.DeleteFunc(want, func(_ string, n int32) bool { return n == 0 })
	return func(ctx context.Context) error {
		var pods corev1.PodList
		if err := testEnv.client.List(ctx, &pods, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		got := versions{}
		for i := range pods.Items {
			if !ready(&pods.Items[i]) {
				return fmt.Errorf("%s is not ready", pods.Items[i].Name)
			}
			got[versionOf(&pods.Items[i].Spec)]++
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("runs %v, want %v", got, want)
		}
		set := &appsv1.DaemonSet{}
		err := testEnv.client.Get(ctx, s.key(name), set)
		n := int32(len(pods.Items)) //nolint:gosec // a few
		if st := set.Status; err == nil && (st.ObservedGeneration != set.Generation || st.NumberReady != n || st.DesiredNumberScheduled != n) {
			err = fmt.Errorf("the status counts %d pods of %d, at generation %d of %d", st.NumberReady, st.DesiredNumberScheduled, st.ObservedGeneration, set.Generation)
		}
		return err
	}
}

// checkStrategy checks the update strategy and the version of the template.
func (s *daemonSetApp) checkStrategy(strategy appsv1.DaemonSetUpdateStrategyType, version string) *appsv1.DaemonSet {
	s.t.Helper()
	set := s.getDaemonSet()
	if got := set.Spec.UpdateStrategy.Type; got != strategy || versionOf(&set.Spec.Template.Spec) != version {
		s.t.Errorf("%s of %s, want %s of %s", got, versionOf(&set.Spec.Template.Spec), strategy, version)
	}
	return set
}

// awaitRestored waits until all fields are as the owner wrote them, except for the version.
func (s *daemonSetApp) awaitRestored(version string) {
	s.t.Helper()
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.eventually("all pods run "+version, s.runsPods(versions{version: s.nodes}))
	set, was := s.getDaemonSet(), s.original.DeepCopy()
	was.Spec.Template.Spec.Containers[0].Image = image(version)
	was.Labels[workloadTypeLabel] = "daemonset"
	for _, d := range []*appsv1.DaemonSet{set, was} {
		delete(d.Annotations, appsv1.DeprecatedTemplateGeneration)
	}
	s.checkEqual("the spec", was.Spec, set.Spec)
	s.checkEqual("the labels", was.Labels, set.Labels)
	s.checkEqual("the annotations", was.Annotations, set.Annotations)
	s.eventually("no objects of the release are left", s.hasNoReleaseObjects)
}

// checkStep waits until a step is paused, and checks that this many new pods are ready.
func (s *daemonSetApp) checkStep(step, updated int32, version string) *v1beta1.Rollout {
	s.t.Helper()
	s.eventually(fmt.Sprintf("step %d waits", step), s.waitsAtStep(step))
	s.checkTreeAndPlan(step)
	st := s.checkStrategy(onDelete, version).Status
	r, err := s.getRollout(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	c := r.Status.Canary
	if st.UpdatedNumberScheduled != updated || c.CanaryReplicas != updated || c.CanaryReadyReplicas != updated {
		s.t.Errorf("step %d: %+v; the Rollout counts %d, %d ready; want %d", step, st, c.CanaryReplicas, c.CanaryReadyReplicas, updated)
	}
	s.eventually("the native controller has observed all ready pods", s.controllerCountsReady)
	s.checkNow(s.podsHaveRevision(c.StableRevision, "v1"))
	s.checkNow(s.podsHaveRevision(c.PodTemplateHash, version))
	return r
}

// controllerCountsReady returns an error until the status of the DaemonSet counts all pods as
// ready, which the native controller updates with a delay.
func (s *daemonSetApp) controllerCountsReady(context.Context) error {
	if n := s.getDaemonSet().Status.NumberReady; n != s.nodes {
		return fmt.Errorf("%d pods are ready, of %d", n, s.nodes)
	}
	return nil
}

// podsHaveRevision returns a check that the pods of a version have this hash label.
func (s *daemonSetApp) podsHaveRevision(hash, version string) func(context.Context) error {
	return func(ctx context.Context) error {
		var pods corev1.PodList
		if err := testEnv.client.List(ctx, &pods, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if of := p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]; versionOf(&p.Spec) == version && of != hash {
				return fmt.Errorf("%s has the hash %s, the status has %s", version, of, hash)
			}
		}
		return nil
	}
}

// templateIs returns a check of the version of the live template.
func (s *daemonSetApp) templateIs(version string) func(context.Context) error {
	return func(context.Context) error {
		if v := versionOf(&s.getDaemonSet().Spec.Template.Spec); v != version {
			return fmt.Errorf("the template is of %s", v)
		}
		return nil
	}
}

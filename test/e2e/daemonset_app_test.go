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

// daemons is an application in a DaemonSet, on nodes of its own.
type daemons struct {
	*app
	was   appsv1.DaemonSet
	nodes int32
}

const rolls, byHand = appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType

func startDaemons(t *testing.T, nodes int32, routed bool, owners func(*appsv1.DaemonSet), steps ...v1beta1.Step) *daemons {
	t.Helper()
	s := &daemons{app: space(t)}
	s.plan = plan{unavailable: 1, routed: routed, grace: 1, steps: steps, change: func(r *v1beta1.Rollout) {
		r.Spec.WorkloadRef.Kind = "DaemonSet"
	}}
	for range nodes {
		s.joins()
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
	s.until("the DaemonSet is ready", s.runsPods(versions{"v1": nodes}))
	s.was = *s.set()
	s.create(s.newRollout())
	return s
}

// joins adds a node.
func (s *daemons) joins() {
	s.t.Helper()
	node := fmt.Sprintf("%s-%d", s.namespace, s.nodes)
	s.nodes++
	s.addNode(node)
	s.t.Cleanup(func() {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		if err := client.IgnoreNotFound(here.client.Delete(context.Background(), n)); err != nil {
			s.t.Error(err)
		}
	})
}

// serve waits until the application is in service.
func (s *daemons) serve() *daemons {
	s.t.Helper()
	s.until("the Rollout is Healthy", s.healthy)
	s.guard = watchPods(s.app)
	s.guard.atLeast(s.nodes - 1)
	return s
}

func (s *daemons) set() *appsv1.DaemonSet {
	s.t.Helper()
	set := &appsv1.DaemonSet{}
	if err := here.client.Get(s.t.Context(), s.key(name), set); err != nil {
		s.t.Fatal(err)
	}
	return set
}

func (s *daemons) change(body string) {
	s.t.Helper()
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	if err := here.client.Patch(s.t.Context(), set, client.RawPatch(types.StrategicMergePatchType, []byte(body))); err != nil {
		s.t.Fatal(err)
	}
}

func (s *daemons) ships(version string) {
	s.t.Helper()
	s.change(fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, image(version)))
}

// runsPods reports whether exactly these pods are there, ready, and counted.
func (s *daemons) runsPods(want versions) func(context.Context) error {
	maps.DeleteFunc(want, func(_ string, n int32) bool { return n == 0 })
	return func(ctx context.Context) error {
		var pods corev1.PodList
		if err := here.client.List(ctx, &pods, client.InNamespace(s.namespace)); err != nil {
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
		err := here.client.Get(ctx, s.key(name), set)
		n := int32(len(pods.Items)) //nolint:gosec // a few
		if st := set.Status; err == nil && (st.ObservedGeneration != set.Generation || st.NumberReady != n || st.DesiredNumberScheduled != n) {
			err = fmt.Errorf("its controller counts %d pods of %d, at generation %d of %d", st.NumberReady, st.DesiredNumberScheduled, st.ObservedGeneration, set.Generation)
		}
		return err
	}
}

// stands wants the DaemonSet to have this strategy and this template, now.
func (s *daemons) stands(strategy appsv1.DaemonSetUpdateStrategyType, version string) *appsv1.DaemonSet {
	s.t.Helper()
	set := s.set()
	if got := set.Spec.UpdateStrategy.Type; got != strategy || versionOf(&set.Spec.Template.Spec) != version {
		s.t.Errorf("%s of %s, want %s of %s", got, versionOf(&set.Spec.Template.Spec), strategy, version)
	}
	return set
}

// gives wants everything back as the owner wrote it, but for the version.
func (s *daemons) gives(version string) {
	s.t.Helper()
	s.until("the Rollout is Healthy", s.healthy)
	s.until("all pods run "+version, s.runsPods(versions{version: s.nodes}))
	set, was := s.set(), s.was.DeepCopy()
	was.Spec.Template.Spec.Containers[0].Image = image(version)
	was.Labels[workloadType] = "daemonset"
	for _, d := range []*appsv1.DaemonSet{set, was} {
		delete(d.Annotations, appsv1.DeprecatedTemplateGeneration)
	}
	s.same("the spec", was.Spec, set.Spec)
	s.same("the labels", was.Labels, set.Labels)
	s.same("the annotations", was.Annotations, set.Annotations)
	s.until("nothing is left beside it", s.alone)
}

// step waits at a step and wants so many new pods, all of them ready.
func (s *daemons) step(step, updated int32, version string) *v1beta1.Rollout {
	s.t.Helper()
	s.until(fmt.Sprintf("step %d waits", step), s.waitsAt(step))
	s.inspects(step)
	st := s.stands(byHand, version).Status
	r, err := s.stored(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	c := r.Status.Canary
	if st.UpdatedNumberScheduled != updated || c.CanaryReplicas != updated || c.CanaryReadyReplicas != updated {
		s.t.Errorf("step %d: %+v; the Rollout counts %d, %d ready; want %d", step, st, c.CanaryReplicas, c.CanaryReadyReplicas, updated)
	}
	s.until("its controller has seen all pods ready", s.ready)
	s.sees(s.revisions(c.StableRevision, "v1"))
	s.sees(s.revisions(c.PodTemplateHash, version))
	return r
}

// ready is what the native controller counts, which it writes when it has the time.
func (s *daemons) ready(context.Context) error {
	if n := s.set().Status.NumberReady; n != s.nodes {
		return fmt.Errorf("%d pods are ready, of %d", n, s.nodes)
	}
	return nil
}

// revisions wants the label value to be that of a version, if it has pods.
func (s *daemons) revisions(hash, version string) func(context.Context) error {
	return func(ctx context.Context) error {
		var pods corev1.PodList
		if err := here.client.List(ctx, &pods, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if of := p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]; versionOf(&p.Spec) == version && of != hash {
				return fmt.Errorf("%s has the hash %s, the Rollout says %s", version, of, hash)
			}
		}
		return nil
	}
}

func (s *daemons) lives(version string) func(context.Context) error {
	return func(context.Context) error {
		if v := versionOf(&s.set().Spec.Template.Spec); v != version {
			return fmt.Errorf("the template is of %s", v)
		}
		return nil
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/kruise"
)

func ofCloneSet(r *v1beta1.Rollout) {
	r.Spec.WorkloadRef.APIVersion, r.Spec.WorkloadRef.Kind = "apps.kruise.io/v1alpha1", "CloneSet"
}

func cloneSets() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kruise.CloneSetKind)
	return list
}

// cloneSetApp is an application in a CloneSet with five pods.
type cloneSetApp struct {
	*app
	// kind is another kind of OpenKruise; empty for a CloneSet.
	kind     schema.GroupVersionKind
	original *unstructured.Unstructured
	// nextRolloutID is the rollout-id label of the next release; empty for none.
	nextRolloutID string
}

// empty is an object of the kind.
func (s *cloneSetApp) empty() *unstructured.Unstructured {
	set := &unstructured.Unstructured{}
	if set.SetGroupVersionKind(s.kind); s.kind.Empty() {
		set.SetGroupVersionKind(kruise.CloneSetKind)
	}
	return set
}

func startCloneSetApp(t *testing.T, routed bool, owners map[string]any, change func(*v1beta1.Rollout), steps ...v1beta1.Step) *cloneSetApp {
	t.Helper()
	s := &cloneSetApp{app: newNamespace(t)}
	s.plan = plan{replicas: 5, unavailable: 1, withTraffic: routed, grace: 1, steps: steps, customizeRollout: func(r *v1beta1.Rollout) {
		ofCloneSet(r)
		if change != nil {
			change(r)
		}
	}}
	s.deployAndAwait(owners)
	return s
}

// deployAndAwait creates the objects, and waits until the Rollout is Healthy.
func (s *cloneSetApp) deployAndAwait(owners map[string]any) {
	s.t.Helper()
	s.createCloneSet(owners)
	if s.plan.withTraffic {
		s.create(s.newService())
		s.create(s.newIngress())
	}
	s.create(s.newRollout())
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.guard = watchPods(s.app)
	s.guard.atLeast(4)
}

// createCloneSet creates the CloneSet with the owner's update strategy.
func (s *cloneSetApp) createCloneSet(strategy map[string]any) {
	s.t.Helper()
	if strategy == nil {
		strategy = map[string]any{"maxUnavailable": int64(1), "unknownToUs": "stays"}
	}
	set := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(5), "revisionHistoryLimit": int64(1), "updateStrategy": strategy,
		"selector": map[string]any{"matchLabels": map[string]any{"app": name}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": name}},
			"spec": map[string]any{
				"terminationGracePeriodSeconds": int64(1),
				"containers":                    []any{map[string]any{"name": name, "image": image("v1")}},
			},
		},
	}}}
	set.SetGroupVersionKind(s.empty().GroupVersionKind())
	set.SetName(name)
	s.create(set)
	s.eventually("all pods are ready", s.runsPods(versions{"v1": 5}))
	s.original = s.getCloneSet()
}

func (s *cloneSetApp) getCloneSet() *unstructured.Unstructured {
	s.t.Helper()
	set := s.empty()
	if err := testEnv.client.Get(s.t.Context(), s.key(name), set); err != nil {
		s.t.Fatal(err)
	}
	return set
}

func (s *cloneSetApp) patchCloneSet(body string) {
	s.t.Helper()
	set := s.empty()
	set.SetName(name)
	set.SetNamespace(s.namespace)
	if err := testEnv.client.Patch(s.t.Context(), set, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		s.t.Fatal(err)
	}
}

func (s *cloneSetApp) setVersion(version string) {
	s.t.Helper()
	s.patchCloneSet(`{"metadata":{"labels":` + s.labelledAs() + `},"spec":{"template":` + templateWith(version) + `}}`)
}

func (s *cloneSetApp) labelledAs() string {
	if s.nextRolloutID == "" {
		return "{}"
	}
	return fmt.Sprintf(`{"rollouts.kruise.io/rollout-id":%q}`, s.nextRolloutID)
}

func templateWith(version string) string {
	return fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"image":%q}]}}`, name, image(version))
}

func (s *cloneSetApp) pods(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := testEnv.client.List(ctx, &pods, client.InNamespace(s.namespace))
	return pods.Items, err
}

// runsPods returns a check that exactly these pods exist, are ready, and are counted in the status.
func (s *cloneSetApp) runsPods(want versions) func(context.Context) error {
	return func(ctx context.Context) error {
		pods, err := s.pods(ctx)
		if err != nil {
			return err
		}
		got := versions{}
		for i := range pods {
			if !ready(&pods[i]) {
				return fmt.Errorf("%s is not ready", pods[i].Name)
			}
			got[versionOf(&pods[i].Spec)]++
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("runs %v, want %v", got, want)
		}
		set := s.empty()
		if err := testEnv.client.Get(ctx, s.key(name), set); err != nil {
			return err
		}
		counted := "readyReplicas"
		if s.kind == kruise.DaemonSetKind {
			counted = "numberReady"
		}
		if nestedField(set, "status", "observedGeneration") != set.GetGeneration() || nestedField(set, "status", counted) != int64(len(pods)) {
			return fmt.Errorf("Kruise counts otherwise: %v", set.Object["status"])
		}
		return nil
	}
}

// nestedField returns a field; nil if it does not exist.
func nestedField(o *unstructured.Unstructured, path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(o.Object, path...) // a field of another type counts as missing
	return v
}

// checkPartition checks the partition and the template version of the CloneSet.
func (s *cloneSetApp) checkPartition(partition any, version string) *unstructured.Unstructured {
	s.t.Helper()
	set := s.getCloneSet()
	containers, _ := nestedField(set, "spec", "template", "spec", "containers").([]any)
	got := nestedField(set, "spec", "updateStrategy", "partition")
	if is := containers[0].(map[string]any)["image"]; got != partition || is != image(version) {
		s.t.Errorf("partition %v of %v, want %v of %s", got, is, partition, version)
	}
	return set
}

// awaitRestored waits until all fields are as the owner wrote them, except for the version.
func (s *cloneSetApp) awaitRestored(version string) {
	s.t.Helper()
	s.eventually("the Rollout is Healthy", s.isHealthy)
	s.checkRestoredAt(version)
}

func (s *cloneSetApp) checkRestoredAt(version string) {
	s.t.Helper()
	n, _ := nestedField(s.getCloneSet(), "spec", "replicas").(int64)
	s.eventually("all pods run "+version, s.runsPods(versions{version: int32(n)})) //nolint:gosec // a few
	set, was := s.getCloneSet(), s.original.DeepCopy()
	was.Object["spec"].(map[string]any)["template"] = nestedField(set, "spec", "template")
	was.Object["spec"].(map[string]any)["replicas"] = n
	s.checkEqual("the spec", nestedField(was, "spec"), nestedField(set, "spec"))
	s.checkEqual("the annotations", was.GetAnnotations(), set.GetAnnotations())
	s.eventually("no objects of the release are left", s.hasNoReleaseObjects)
}

// checkStep waits until a step is paused, and checks pods, partition and status.
func (s *cloneSetApp) checkStep(step int32, updated int64, partition any, version string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("step %d waits", step), s.waitsAtStep(step))
	s.checkTreeAndPlan(step)
	set := s.checkPartition(partition, version)
	r, err := s.getRollout(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	c := r.Status.Canary
	if nestedField(set, "status", "updatedReplicas") != updated || int64(c.CanaryReplicas) != updated || int64(c.CanaryReadyReplicas) != updated {
		s.t.Errorf("step %d: %v; the Rollout counts %d, %d ready; want %d", step, set.Object["status"], c.CanaryReplicas, c.CanaryReadyReplicas, updated)
	}
	stable, is := hashOf(s.original, "currentRevision"), hashOf(set, "updateRevision")
	if c.StableRevision != stable || c.CanaryRevision != is || c.PodTemplateHash != is {
		s.t.Errorf("stable %s, new %s of %s; want %s, %s", c.StableRevision, c.CanaryRevision, c.PodTemplateHash, stable, is)
	}
}

// hashOf returns the hash at the end of a revision name.
func hashOf(o *unstructured.Unstructured, field string) string {
	return fmt.Sprint(nestedField(o, "status", field))[len(name)+1:]
}

// withRolloutID sets the rollout-id of the next release.
func (s *cloneSetApp) withRolloutID(id string) *cloneSetApp {
	s.nextRolloutID = id
	return s
}

// hasFullRevisionLabels returns an error unless the pods are labelled with the full name of their
// revision.
func (s *cloneSetApp) hasFullRevisionLabels(ctx context.Context) error {
	pods, err := s.pods(ctx)
	for i := range pods {
		if got := pods[i].Labels[appsv1.ControllerRevisionHashLabelKey]; got != name+"-"+pods[i].Labels[appsv1.DefaultDeploymentUniqueLabelKey] {
			return fmt.Errorf("%s is of revision %s", pods[i].Name, got)
		}
	}
	return err
}

func (s *cloneSetApp) podUIDs() []types.UID {
	s.t.Helper()
	pods, err := s.pods(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var all []types.UID
	for i := range pods {
		all = append(all, pods[i].UID)
	}
	slices.Sort(all)
	return all
}

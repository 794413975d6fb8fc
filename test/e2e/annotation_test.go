// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hub "github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// annotationSpec is the value of the strategy annotation of a Deployment without a Rollout.
type annotationSpec struct {
	RollingUpdate appsv1.RollingUpdateDeployment `json:"rollingUpdate"`
	Paused        bool                           `json:"paused"`
	Partition     intstr.IntOrString             `json:"partition"`
}

// annotatedApp is an application without a Rollout whose Deployment has the strategy annotation.
type annotatedApp struct {
	*app
	strategy annotationSpec
}

// startAnnotatedApp starts an application of version v1. surge and unavailable are numbers or
// percentages.
func startAnnotatedApp(t *testing.T, replicas int32, surge, unavailable string, minReady int32) *annotatedApp {
	t.Helper()
	t.Parallel()
	up, down := intstr.Parse(surge), intstr.Parse(unavailable)
	a := &annotatedApp{app: newNamespace(t)}
	a.plan.replicas = replicas
	a.strategy.RollingUpdate = appsv1.RollingUpdateDeployment{MaxSurge: &up, MaxUnavailable: &down}
	d := a.newDeployment()
	d.Spec.Paused, d.Spec.MinReadySeconds = true, minReady
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	d.Annotations = map[string]string{
		hub.AnnotationControlInfo:        `{"kind":"BatchRelease","name":"nobody"}`,
		hub.AnnotationDeploymentStrategy: a.json(a.strategy),
	}
	a.create(d)
	a.eventually("all pods are there", a.hasCounts(replicas, replicas, replicas))
	a.guard = watchPods(a.app)
	lost, err := intstr.GetScaledValueFromIntOrPercent(&down, int(replicas), false)
	if err != nil {
		t.Fatal(err)
	}
	a.plan.unavailable = int32(lost)
	a.guard.atLeast(replicas - a.plan.unavailable)
	return a
}

func (a *annotatedApp) json(v any) string {
	a.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(data)
}

// annotate writes the strategy annotation together with the spec.
func (a *annotatedApp) annotate(spec map[string]any) {
	a.t.Helper()
	body := map[string]any{"metadata": map[string]any{"annotations": map[string]any{hub.AnnotationDeploymentStrategy: a.json(a.strategy)}}}
	if spec != nil {
		body["spec"] = spec
	}
	if err := a.patchDeployment(a.json(body)); err != nil {
		a.t.Fatal(err)
	}
}

// setPausedTemplate sets a new template and pauses in one write, and waits until the controller has
// observed the write.
func (a *annotatedApp) setPausedTemplate(version string) {
	a.t.Helper()
	a.strategy.Paused = true
	containers := []map[string]string{{"name": name, "image": image(version)}}
	a.annotate(map[string]any{"template": map[string]any{"spec": map[string]any{"containers": containers}}})
	a.eventually("the template is observed", func(ctx context.Context) error {
		d, err := a.getDeployment(ctx)
		if err == nil && d.Status.ObservedGeneration < d.Generation {
			err = fmt.Errorf("generation %d of %d is observed", d.Status.ObservedGeneration, d.Generation)
		}
		return err
	})
}

func (a *annotatedApp) setPartition(share string) {
	a.t.Helper()
	a.strategy.Paused, a.strategy.Partition = false, intstr.Parse(share)
	a.annotate(nil)
}

// awaitStableCounts waits until the pods have these counts, and checks that they stay.
func (a *annotatedApp) awaitStableCounts(all, available, updated int32) {
	a.t.Helper()
	what := fmt.Sprintf("(%d, %d, %d)", all, available, updated)
	a.eventually(what, a.hasCounts(all, available, updated))
	a.consistently(what, a.hasCounts(all, available, updated))
}

// walkPartitions sets one partition after the other, and waits each time until all pods are
// available.
func (a *annotatedApp) walkPartitions(shares ...string) {
	a.t.Helper()
	for _, s := range shares {
		a.setPartition(s)
		want, err := intstr.GetScaledValueFromIntOrPercent(&a.strategy.Partition, int(a.plan.replicas), true)
		if err != nil {
			a.t.Fatal(err)
		}
		a.awaitStableCounts(a.plan.replicas, a.plan.replicas, int32(want))
	}
}

// hasCounts returns a check that the status of the Deployment has these counts, and that pods and
// ReplicaSets agree with it.
func (a *annotatedApp) hasCounts(all, available, updated int32) func(context.Context) error {
	want := []int32{all, available, updated}
	return func(ctx context.Context) error {
		d, err := a.getDeployment(ctx)
		if err != nil {
			return err
		}
		if got := []int32{d.Status.Replicas, d.Status.AvailableReplicas, d.Status.UpdatedReplicas}; !slices.Equal(got, want) {
			return fmt.Errorf("the Deployment has %d, want %d", got, want)
		}
		sets, err := a.replicaSets(ctx)
		if err != nil {
			return err
		}
		got := []int32{0, 0, 0}
		for i := range sets {
			s := sets[i].Status
			got[0], got[1] = got[0]+s.Replicas, got[1]+s.AvailableReplicas
			if versionOf(&sets[i].Spec.Template.Spec) == versionOf(&d.Spec.Template.Spec) {
				got[2] += s.Replicas
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the ReplicaSets have %d, want %d", got, want)
		}
		var pods corev1.PodList
		err = testEnv.client.List(ctx, &pods, client.InNamespace(a.namespace))
		there := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
		if err == nil && len(there) != int(all) {
			err = fmt.Errorf("there are %d pods, want %d", len(there), all)
		}
		return err
	}
}

// hasExtraStatus returns a check of the extra-status annotation.
func (a *annotatedApp) hasExtraStatus(want string) func(context.Context) error {
	return func(ctx context.Context) error {
		d, err := a.getDeployment(ctx)
		if got := d.Annotations[hub.AnnotationDeploymentExtraStatus]; err == nil && got != want {
			err = fmt.Errorf("the extra status is %q, want %q", got, want)
		}
		return err
	}
}

// TestAnnotationPartition checks that only the partition decides how many pods run the new version.
func TestAnnotationPartition(t *testing.T) {
	a := startAnnotatedApp(t, 6, "25%", "25%", 0)
	a.setPausedTemplate("v2")
	a.consistently("paused", a.hasCounts(6, 6, 0))
	a.walkPartitions("0", "1", "3")
	a.eventually("the extra status is written", a.hasExtraStatus(`{"updatedReadyReplicas":3,"expectedUpdatedReplicas":3}`))
	a.walkPartitions("4", "6")
}

// TestAnnotationPartitionHolds checks that three new and seven old pods stay, although the native
// controller runs, and that the ratio is kept after scaling.
func TestAnnotationPartitionHolds(t *testing.T) {
	a := startAnnotatedApp(t, 10, "2", "1", 0)
	a.setPausedTemplate("v2")
	a.walkPartitions("3")
	a.checkNow(a.runs(versions{"v1": 7, "v2": 3}))
	a.scale(20)
	a.awaitStableCounts(20, 20, 6)
	a.scale(10)
	a.awaitPods(versions{"v1": 7, "v2": 3})
	a.awaitStableCounts(10, 10, 3)
}

// TestAnnotationScaleUp checks that added pods are distributed over both versions in proportion.
func TestAnnotationScaleUp(t *testing.T) {
	a := startAnnotatedApp(t, 5, "25%", "25%", 0)
	a.setPausedTemplate("v2")
	a.walkPartitions("1", "2")
	a.scale(10)
	a.awaitStableCounts(10, 10, 4)
	a.walkPartitions("7", "10")
}

func TestAnnotationScaleDown(t *testing.T) {
	a := startAnnotatedApp(t, 10, "25%", "25%", 0)
	a.setPausedTemplate("v2")
	a.walkPartitions("0%", "40%")
	a.scale(5)
	a.awaitPods(versions{"v1": 3, "v2": 2})
	a.awaitStableCounts(5, 5, 2)
	a.walkPartitions("60%", "100%")
}

// TestAnnotationBadVersion checks that a version whose pods do not start creates no pods beyond
// maxSurge.
func TestAnnotationBadVersion(t *testing.T) {
	a := startAnnotatedApp(t, 5, "1", "0", 0)
	a.watchReplicaSetSizes(6)
	a.setPausedTemplate("failed")
	a.setPartition("0")
	a.awaitStableCounts(5, 5, 0)
	a.setPartition("3")
	a.awaitStableCounts(6, 5, 1)
}

// TestAnnotationNoSurge checks that pods are replaced one by one without a surge.
func TestAnnotationNoSurge(t *testing.T) {
	a := startAnnotatedApp(t, 4, "0", "1", 3)
	a.watchReplicaSetSizes(5)
	a.setPausedTemplate("v2")
	a.setPartition("0")
	a.awaitStableCounts(4, 4, 0)
	a.setPartition("2")
	a.eventually("the first pod is new", a.hasCounts(4, 3, 1))
	a.eventually("the second pod is new", a.hasCounts(4, 3, 2))
	a.setPartition("4")
	a.eventually("the third pod is new", a.hasCounts(4, 3, 3))
	a.eventually("the fourth pod is new", a.hasCounts(4, 3, 4))
	a.awaitStableCounts(4, 4, 4)
}

// TestAnnotationThirdVersion checks that a third version first replaces pods of the second.
func TestAnnotationThirdVersion(t *testing.T) {
	a := startAnnotatedApp(t, 5, "25%", "25%", 0)
	a.setPausedTemplate("v2")
	a.walkPartitions("0", "2")
	a.setPausedTemplate("v3")
	a.consistently("paused", a.runs(versions{"v1": 3, "v2": 2}))
	a.walkPartitions("0")
	a.checkNow(a.runs(versions{"v1": 3, "v2": 2}))
	a.walkPartitions("3")
	a.checkNow(a.runs(versions{"v1": 2, "v3": 3}))
	a.walkPartitions("5")
}

func TestAnnotationRevertToSecondVersion(t *testing.T) {
	a := startAnnotatedApp(t, 5, "25%", "25%", 0)
	a.setPausedTemplate("v2")
	a.walkPartitions("0", "2")
	a.setPausedTemplate("v3")
	a.walkPartitions("0", "3")
	a.setPausedTemplate("v2")
	a.walkPartitions("2")
	a.checkNow(a.runs(versions{"v1": 2, "v2": 2, "v3": 1}))
	a.walkPartitions("3", "5")
}

// TestAnnotationUnhealthyOldPodsFirst checks that pods which never started are deleted first, even
// while paused.
func TestAnnotationUnhealthyOldPodsFirst(t *testing.T) {
	a := startAnnotatedApp(t, 5, "1", "0", 0)
	a.watchReplicaSetSizes(6)
	a.setPausedTemplate("not-exists")
	a.setPartition("1")
	a.awaitStableCounts(6, 5, 1)
	a.setPausedTemplate("v3")
	a.awaitStableCounts(5, 5, 0)
	a.walkPartitions("5")
}

// TestAnnotationWithKubectl follows the documentation: a Deployment of the native controller is
// annotated, released with kubectl, and restored.
func TestAnnotationWithKubectl(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	a.plan = plan{replicas: 10, surge: 2, unavailable: 1}
	a.create(a.newDeployment())
	a.eventually("the Deployment is ready", a.runs(versions{"v1": 10}))
	before := a.readOriginals()
	a.guard = watchPods(a)
	a.guard.atLeast(9)
	const limits = `"rollingUpdate":{"maxSurge":2,"maxUnavailable":1}`
	patch := func(control, strategy, spec string) {
		t.Helper()
		testEnv.admin.kubectl(a, "patch", "deployment", name, "-p", fmt.Sprintf(`{"metadata":{"annotations":{%q:%s,%q:%s,%q:null}},"spec":{%s}}`,
			hub.AnnotationControlInfo, control, hub.AnnotationDeploymentStrategy, strategy, hub.AnnotationDeploymentExtraStatus, spec)).mustSucceed()
	}
	patch(`"by hand"`, strconv.Quote(`{`+limits+`,"paused":true}`), `"paused":true,"strategy":{"type":"Recreate","rollingUpdate":null},
		"template":{"spec":{"containers":[{"name":"web","image":"`+image("v2")+`"}]}}`)
	testEnv.admin.kubectl(a, "annotate", "deployment", name, "--overwrite", hub.AnnotationDeploymentStrategy+`={`+limits+`,"partition":3}`).mustSucceed()
	a.eventually("three pods are new", a.runs(versions{"v1": 7, "v2": 3}))
	a.consistently("three pods are new", a.runs(versions{"v1": 7, "v2": 3}))
	patch("null", "null", `"paused":false,"strategy":{"type":"RollingUpdate",`+limits+`}`)
	a.eventually("the native controller continues", a.runs(versions{"v2": 10}))
	d, err := a.getDeployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before.deployment.Spec.Template.Spec.Containers[0].Image = image("v2")
	a.checkEqual("the Deployment", before.deployment.Spec, d.Spec)
	a.release("v3")
	a.eventually("the native controller releases", a.runs(versions{"v3": 10}))
}

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

// told is what a Deployment without a Rollout is driven by.
type told struct {
	RollingUpdate appsv1.RollingUpdateDeployment `json:"rollingUpdate"`
	Paused        bool                           `json:"paused"`
	Partition     intstr.IntOrString             `json:"partition"`
}

// driven is an application that is driven by the annotation alone.
type driven struct {
	*app
	told told
}

// drivenApp makes one of version v1. Limits are numbers or percentages.
func drivenApp(t *testing.T, replicas int32, surge, unavailable string, minReady int32) *driven {
	t.Helper()
	t.Parallel()
	up, down := intstr.Parse(surge), intstr.Parse(unavailable)
	a := &driven{app: space(t)}
	a.plan.replicas = replicas
	a.told.RollingUpdate = appsv1.RollingUpdateDeployment{MaxSurge: &up, MaxUnavailable: &down}
	d := a.newDeployment()
	d.Spec.Paused, d.Spec.MinReadySeconds = true, minReady
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	d.Annotations = map[string]string{
		hub.AnnotationControlInfo:        `{"kind":"BatchRelease","name":"nobody"}`,
		hub.AnnotationDeploymentStrategy: a.json(a.told),
	}
	a.create(d)
	a.until("all pods are there", a.counts(replicas, replicas, replicas))
	a.guard = watchPods(a.app)
	lost, err := intstr.GetScaledValueFromIntOrPercent(&down, int(replicas), false)
	if err != nil {
		t.Fatal(err)
	}
	a.plan.unavailable = int32(lost)
	a.guard.atLeast(replicas - a.plan.unavailable)
	return a
}

func (a *driven) json(v any) string {
	a.t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(data)
}

// say writes the annotation, and the spec with it.
func (a *driven) say(spec map[string]any) {
	a.t.Helper()
	body := map[string]any{"metadata": map[string]any{"annotations": map[string]any{hub.AnnotationDeploymentStrategy: a.json(a.told)}}}
	if spec != nil {
		body["spec"] = spec
	}
	if err := a.patch(a.json(body)); err != nil {
		a.t.Fatal(err)
	}
}

// next writes a template and a pause in one, and waits until that is observed.
func (a *driven) next(version string) {
	a.t.Helper()
	a.told.Paused = true
	containers := []map[string]string{{"name": name, "image": image(version)}}
	a.say(map[string]any{"template": map[string]any{"spec": map[string]any{"containers": containers}}})
	a.until("the template is observed", func(ctx context.Context) error {
		d, err := a.deployment(ctx)
		if err == nil && d.Status.ObservedGeneration < d.Generation {
			err = fmt.Errorf("generation %d of %d is observed", d.Status.ObservedGeneration, d.Generation)
		}
		return err
	})
}

func (a *driven) partition(share string) {
	a.t.Helper()
	a.told.Paused, a.told.Partition = false, intstr.Parse(share)
	a.say(nil)
}

// holds wants numbers of pods to be reached and to stay.
func (a *driven) holds(all, available, updated int32) {
	a.t.Helper()
	what := fmt.Sprintf("(%d, %d, %d)", all, available, updated)
	a.until(what, a.counts(all, available, updated))
	a.stays(what, a.counts(all, available, updated))
}

// steps moves the partition, to be all available each time.
func (a *driven) steps(shares ...string) {
	a.t.Helper()
	for _, s := range shares {
		a.partition(s)
		want, err := intstr.GetScaledValueFromIntOrPercent(&a.told.Partition, int(a.plan.replicas), true)
		if err != nil {
			a.t.Fatal(err)
		}
		a.holds(a.plan.replicas, a.plan.replicas, int32(want))
	}
}

// counts wants the Deployment's status to tell these numbers, and pods and
// ReplicaSets to agree.
func (a *driven) counts(all, available, updated int32) func(context.Context) error {
	want := []int32{all, available, updated}
	return func(ctx context.Context) error {
		d, err := a.deployment(ctx)
		if err != nil {
			return err
		}
		if got := []int32{d.Status.Replicas, d.Status.AvailableReplicas, d.Status.UpdatedReplicas}; !slices.Equal(got, want) {
			return fmt.Errorf("the Deployment has %d, want %d", got, want)
		}
		sets, err := a.sets(ctx)
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
		err = here.client.List(ctx, &pods, client.InNamespace(a.namespace))
		there := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
		if err == nil && len(there) != int(all) {
			err = fmt.Errorf("there are %d pods, want %d", len(there), all)
		}
		return err
	}
}

// tells wants the extra status.
func (a *driven) tells(want string) func(context.Context) error {
	return func(ctx context.Context) error {
		d, err := a.deployment(ctx)
		if got := d.Annotations[hub.AnnotationDeploymentExtraStatus]; err == nil && got != want {
			err = fmt.Errorf("the extra status is %q, want %q", got, want)
		}
		return err
	}
}

// Only the partition says how many pods are new.
func TestAnnotationPartition(t *testing.T) {
	a := drivenApp(t, 6, "25%", "25%", 0)
	a.next("v2")
	a.stays("paused", a.counts(6, 6, 0))
	a.steps("0", "1", "3")
	a.until("the status tells", a.tells(`{"updatedReadyReplicas":3,"expectedUpdatedReplicas":3}`))
	a.steps("4", "6")
}

// The scenario of three new and seven old pods: it stays so beside the native
// controller, and is so again after scaling.
func TestAnnotationHolds(t *testing.T) {
	a := drivenApp(t, 10, "2", "1", 0)
	a.next("v2")
	a.steps("3")
	a.sees(a.runs(versions{"v1": 7, "v2": 3}))
	a.scale(20)
	a.holds(20, 20, 6)
	a.scale(10)
	a.settled(versions{"v1": 7, "v2": 3})
	a.holds(10, 10, 3)
}

// Scaling shares pods out in the proportion that they have.
func TestAnnotationScaleUp(t *testing.T) {
	a := drivenApp(t, 5, "25%", "25%", 0)
	a.next("v2")
	a.steps("1", "2")
	a.scale(10)
	a.holds(10, 10, 4)
	a.steps("7", "10")
}

func TestAnnotationScaleDown(t *testing.T) {
	a := drivenApp(t, 10, "25%", "25%", 0)
	a.next("v2")
	a.steps("0%", "40%")
	a.scale(5)
	a.settled(versions{"v1": 3, "v2": 2})
	a.holds(5, 5, 2)
	a.steps("60%", "100%")
}

// A version that does not start gets no further than the surge.
func TestAnnotationBadVersion(t *testing.T) {
	a := drivenApp(t, 5, "1", "0", 0)
	a.watchSizes(6)
	a.next("failed")
	a.partition("0")
	a.holds(5, 5, 0)
	a.partition("3")
	a.holds(6, 5, 1)
}

// Without a surge one pod after the other is replaced.
func TestAnnotationNoSurge(t *testing.T) {
	a := drivenApp(t, 4, "0", "1", 3)
	a.watchSizes(5)
	a.next("v2")
	a.partition("0")
	a.holds(4, 4, 0)
	a.partition("2")
	a.until("the first is new", a.counts(4, 3, 1))
	a.until("the second is new", a.counts(4, 3, 2))
	a.partition("4")
	a.until("the third is new", a.counts(4, 3, 3))
	a.until("the fourth is new", a.counts(4, 3, 4))
	a.holds(4, 4, 4)
}

// A third version takes the place of the second first.
func TestAnnotationContinuous(t *testing.T) {
	a := drivenApp(t, 5, "25%", "25%", 0)
	a.next("v2")
	a.steps("0", "2")
	a.next("v3")
	a.stays("paused", a.runs(versions{"v1": 3, "v2": 2}))
	a.steps("0")
	a.sees(a.runs(versions{"v1": 3, "v2": 2}))
	a.steps("3")
	a.sees(a.runs(versions{"v1": 2, "v3": 3}))
	a.steps("5")
}

func TestAnnotationBackToSecond(t *testing.T) {
	a := drivenApp(t, 5, "25%", "25%", 0)
	a.next("v2")
	a.steps("0", "2")
	a.next("v3")
	a.steps("0", "3")
	a.next("v2")
	a.steps("2")
	a.sees(a.runs(versions{"v1": 2, "v2": 2, "v3": 1}))
	a.steps("3", "5")
}

// Pods that never started go first, even while paused.
func TestAnnotationOldUnhealthyFirst(t *testing.T) {
	a := drivenApp(t, 5, "1", "0", 0)
	a.watchSizes(6)
	a.next("not-exists")
	a.partition("1")
	a.holds(6, 5, 1)
	a.next("v3")
	a.holds(5, 5, 0)
	a.steps("5")
}

// As the documentation does it: a Deployment of the native controller is taken,
// released by kubectl, and given back.
func TestAnnotationByHand(t *testing.T) {
	t.Parallel()
	a := space(t)
	a.plan = plan{replicas: 10, surge: 2, unavailable: 1}
	a.create(a.newDeployment())
	a.until("the Deployment is ready", a.runs(versions{"v1": 10}))
	before := a.original()
	a.guard = watchPods(a)
	a.guard.atLeast(9)
	const limits = `"rollingUpdate":{"maxSurge":2,"maxUnavailable":1}`
	patch := func(control, strategy, spec string) {
		t.Helper()
		here.admin.kubectl(a, "patch", "deployment", name, "-p", fmt.Sprintf(`{"metadata":{"annotations":{%q:%s,%q:%s,%q:null}},"spec":{%s}}`,
			hub.AnnotationControlInfo, control, hub.AnnotationDeploymentStrategy, strategy, hub.AnnotationDeploymentExtraStatus, spec)).works()
	}
	patch(`"by hand"`, strconv.Quote(`{`+limits+`,"paused":true}`), `"paused":true,"strategy":{"type":"Recreate","rollingUpdate":null},
		"template":{"spec":{"containers":[{"name":"web","image":"`+image("v2")+`"}]}}`)
	here.admin.kubectl(a, "annotate", "deployment", name, "--overwrite", hub.AnnotationDeploymentStrategy+`={`+limits+`,"partition":3}`).works()
	a.until("three are new", a.runs(versions{"v1": 7, "v2": 3}))
	a.stays("three are new", a.runs(versions{"v1": 7, "v2": 3}))
	patch("null", "null", `"paused":false,"strategy":{"type":"RollingUpdate",`+limits+`}`)
	a.until("the native controller goes on", a.runs(versions{"v2": 10}))
	d, err := a.deployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before.deployment.Spec.Template.Spec.Containers[0].Image = image("v2")
	a.same("the Deployment", before.deployment.Spec, d.Spec)
	a.release("v3")
	a.until("the native controller releases", a.runs(versions{"v3": 10}))
}

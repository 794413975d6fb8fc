// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/test/cluster"
)

// forgedRecords are annotations with which a user could try to release more than was approved.
const forgedRecords = `"annotations":{"batchrelease.rollouts.kruise.io/control-info":"{}","rollouts.kruise.io/in-progressing":null,` +
	`"rollouts.kruise.io/deployment-strategy":"{\"partition\":\"100%\"}"},"labels":{"rollouts.kruise.io/stable-revision":"x"}`

// TestAdmissionKeepsRecords checks that only Weir can write its annotations on a workload, with the
// webhook alone and with the policies alone, for each kind of write. This test does not run in
// parallel with others.
func TestAdmissionKeepsRecords(t *testing.T) {
	a := start(t, planWithoutTraffic())
	a.create(deploymentWithoutRollout())
	killAll(t, cluster.WeirController)
	others := map[string]string{
		"itself": "", "the template": `,"spec":{"paused":false,"strategy":{"type":"Recreate","rollingUpdate":null},"template":{"metadata":{"annotations":{"a":"b"}}}}`,
	}
	for path := range admissionPaths() {
		t.Run(path, func(t *testing.T) {
			a.leaveOnlyAdmissionPath(t, path)
			for state, stored := range map[string]string{"unheld": bare, "held": held} {
				a.patchNamedDeployment(testEnv.controllerClient(t), name, bare)
				before := a.patchNamedDeployment(testEnv.controllerClient(t), name, stored)
				for what, other := range others {
					got := a.patchNamedDeployment(testEnv.client, name, `{"metadata":{`+forgedRecords+`}`+other+`}`, client.DryRunAll)
					a.checkRecords(state+", with "+what, before, got, other != "")
				}
				d := &appsv1.Deployment{ObjectMeta: before.ObjectMeta}
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{`+forgedRecords+`},"status":{"replicas":7}}`))
				if err := testEnv.client.Status().Patch(t.Context(), d, patch, client.DryRunAll); err != nil {
					t.Fatal(err)
				}
				a.checkRecords(state+", with status", before, d, false)
			}
			a.patchNamedDeployment(testEnv.controllerClient(t), name, bare)
		})
	}
}

// checkRecords checks that the stored annotations are kept, or those of a hold of another template.
func (a *app) checkRecords(what string, before, got *appsv1.Deployment, released bool) {
	a.t.Helper()
	want := map[string]string{}
	maps.Copy(want, before.Annotations)
	if released && want["rollouts.kruise.io/in-progressing"] == "" {
		want["rollouts.kruise.io/in-progressing"] = `{"rolloutName":"web"}`
	}
	records := func(m map[string]string) map[string]string {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(k, _ string) bool {
			// The remaining annotation is the owner's strategy, which the policies save.
			return !strings.Contains(k, "rollouts.kruise.io/") || k == "rollouts.kruise.io/wanted-spec"
		})
		return m
	}
	if diff := cmp.Diff(records(want), records(got.Annotations), cmpopts.EquateEmpty()) + cmp.Diff(records(before.Labels), records(got.Labels), cmpopts.EquateEmpty()); diff != "" {
		a.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
	if released && !got.Spec.Paused {
		a.t.Errorf("%s: it is not paused", what)
	}
}

// TestAdmissionStripsRecordsOnCreate creates a workload with Weir's annotations. They are removed
// if a Rollout references the workload, and only then.
func TestAdmissionStripsRecordsOnCreate(t *testing.T) {
	a := start(t, planWithoutTraffic())
	a.create(deploymentWithoutRollout())
	killAll(t, cluster.WeirController)
	for path := range admissionPaths() {
		t.Run(path, func(t *testing.T) {
			a.leaveOnlyAdmissionPath(t, path)
			d, err := a.getDeployment(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := testEnv.client.Delete(t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
				t.Fatal(err)
			}
			a.eventually("the Deployment is gone", func(ctx context.Context) error {
				if _, err := a.getDeployment(ctx); !apierrors.IsNotFound(err) {
					return errors.New("the Deployment exists")
				}
				return nil
			})
			made := func(as client.Client, name string, opts ...client.CreateOption) (*appsv1.Deployment, error) {
				n := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
					Namespace: a.namespace, Name: name, Labels: map[string]string{"rollouts.kruise.io/stable-revision": "x"},
					Annotations: map[string]string{"rollouts.kruise.io/some-day": "x", "rollouts.kruise.io/rollout-id": "7"},
				}, Spec: *d.Spec.DeepCopy()}
				return n, as.Create(t.Context(), n, opts...)
			}
			a.eventually("the Deployment is created without records", func(context.Context) error {
				n, err := made(testEnv.client, d.Name, client.DryRunAll)
				if err == nil && (len(n.Labels) != 0 || !maps.Equal(n.Annotations, map[string]string{"rollouts.kruise.io/rollout-id": "7"})) {
					err = fmt.Errorf("created with labels %v, annotations %v", n.Labels, n.Annotations)
				}
				return err
			})
			if n, err := made(testEnv.client, "third", client.DryRunAll); err != nil || len(n.Labels) != 1 || len(n.Annotations) != 2 {
				t.Errorf("without a Rollout: created with labels %v, annotations %v: %v", n.Labels, n.Annotations, err)
			}
			if _, err := made(testEnv.controllerClient(t), d.Name); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestScaleSubresourceKeepsRecords checks that a write of the scale subresource changes only the
// size of a workload.
func TestScaleSubresourceKeepsRecords(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	d, err := a.getDeployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	scale := &autoscalingv1.Scale{}
	if err := testEnv.client.SubResource("scale").Get(t.Context(), d, scale); err != nil {
		t.Fatal(err)
	}
	scale.Spec.Replicas = 4
	scale.Labels, scale.Annotations = map[string]string{"rollouts.kruise.io/workload-type": "x"}, map[string]string{"rollouts.kruise.io/in-progressing": "x"}
	if err := testEnv.client.SubResource("scale").Update(t.Context(), d, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	now, err := a.getDeployment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if *now.Spec.Replicas != 4 || now.Labels["rollouts.kruise.io/workload-type"] != "deployment" || now.Annotations["rollouts.kruise.io/in-progressing"] != "" {
		t.Errorf("scaled to %d with labels %v, annotations %v", *now.Spec.Replicas, now.Labels, now.Annotations)
	}
}

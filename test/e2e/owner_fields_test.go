// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// styles are the default plan in each style.
var styles = map[string]func() plan{"partition": defaultPlan, "canary": canaryPlan, "blue-green": blueGreenPlan}

// customizeEveryField sets every field of the Deployment that a release changes.
func customizeEveryField(d *appsv1.Deployment) {
	d.Annotations = map[string]string{"owner": "me"}
	d.Labels["team"] = "shop"
	d.Spec.RevisionHistoryLimit, d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds = new(int32(4)), 1, new(int32(77))
}

// TestOwnerFieldsRestored checks that after every end of a release, in each style, all fields are
// as their owner wrote them: Deployment, ReplicaSets, Service, Ingress and autoscaler.
func TestOwnerFieldsRestored(t *testing.T) {
	t.Parallel()
	ends := map[string]struct {
		play    func(*app)
		version string
		left    []string
	}{
		"completed": {func(a *app) { a.promoteAll(); a.eventually("the Rollout is Healthy", a.isHealthy) }, "v2", []string{workloadTypeLabel}},
		"aborted and reverted": {func(a *app) {
			a.abort()
			a.release("v1")
			a.eventually("the Rollout is Healthy", a.isHealthy)
		}, "v1", []string{workloadTypeLabel}},
		"disabled": {func(a *app) {
			a.patchRollout(`{"spec":{"disabled":true}}`)
			a.eventually("the Rollout is disabled", a.isDisabled)
		}, "v2", nil},
		"deleted": {func(a *app) { testEnv.admin.kubectl(a, "delete", "rollout", name).mustSucceed() }, "v2", nil},
	}
	for _, style := range selectCases(styles, "blue-green") {
		for _, ending := range selectCases(ends, "aborted and reverted") {
			end := ends[ending]
			t.Run(style+" "+ending, func(t *testing.T) {
				t.Parallel()
				p := styles[style]()
				p.customizeDeployment = customizeEveryField
				a := start(t, p)
				scaler := a.newScaler()
				a.create(scaler)
				a.release("v2")
				a.eventually("step 1 waits", a.waitsInAnyStyle(1))
				end.play(a)
				a.awaitPods(versions{end.version: 6})
				a.eventually("the autoscaler is restored", a.autoscalerRestored(scaler))
				a.eventually("the ReplicaSets are restored", a.replicaSetsRestored(1))
				a.checkRestored(end.left...)
			})
		}
	}
}

// autoscalerRestored returns a check that the autoscaler is as its owner wrote it.
func (a *app) autoscalerRestored(want *autoscalingv2.HorizontalPodAutoscaler) func(context.Context) error {
	return func(ctx context.Context) error {
		h := &autoscalingv2.HorizontalPodAutoscaler{}
		err := testEnv.client.Get(ctx, a.key(name), h)
		if err == nil && (h.Spec.ScaleTargetRef != want.Spec.ScaleTargetRef || len(h.Annotations)+len(h.Labels) > 0) {
			err = fmt.Errorf("the autoscaler scales %v, annotations %v", h.Spec.ScaleTargetRef, h.Annotations)
		}
		return err
	}
}

// replicaSetsRestored returns a check that every ReplicaSet has the settings of its Deployment.
func (a *app) replicaSetsRestored(minReady int32) func(context.Context) error {
	return func(ctx context.Context) error {
		sets, err := a.replicaSets(ctx)
		for i := range sets {
			if got := sets[i].Spec.MinReadySeconds; got != minReady {
				return fmt.Errorf("ReplicaSet %s has minReadySeconds %d", sets[i].Name, got)
			}
			for key := range sets[i].Annotations {
				if key != "owner" && key[:min(len(key), 25)] != "deployment.kubernetes.io/" {
					return fmt.Errorf("%s has the annotation %s", sets[i].Name, key)
				}
			}
		}
		return err
	}
}

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

// styles are the usual plan in each style.
var styles = map[string]func() plan{"partition": usual, "canary": beside, "blue-green": switched}

// particular is an owner who writes every field that a release touches.
func particular(d *appsv1.Deployment) {
	d.Annotations = map[string]string{"owner": "me"}
	d.Labels["team"] = "shop"
	d.Spec.RevisionHistoryLimit, d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds = new(int32(4)), 1, new(int32(77))
}

// However a release ends, in whatever style, everything is as its owner wrote
// it: Deployment, ReplicaSets, Service, Ingress and autoscaler, field by field.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	ends := map[string]struct {
		play    func(*app)
		version string
		left    []string
	}{
		"completed": {func(a *app) { a.promoteAll(); a.until("the Rollout is Healthy", a.healthy) }, "v2", []string{workloadType}},
		"aborted and reverted": {func(a *app) {
			a.abort()
			a.release("v1")
			a.until("the Rollout is Healthy", a.healthy)
		}, "v1", []string{workloadType}},
		"disabled": {func(a *app) {
			a.edit(`{"spec":{"disabled":true}}`)
			a.until("the Rollout is disabled", a.disabled)
		}, "v2", nil},
		"deleted": {func(a *app) { here.admin.kubectl(a, "delete", "rollout", name).works() }, "v2", nil},
	}
	for _, style := range some(styles, "blue-green") {
		for _, ending := range some(ends, "aborted and reverted") {
			end := ends[ending]
			t.Run(style+" "+ending, func(t *testing.T) {
				t.Parallel()
				p := styles[style]()
				p.owners = particular
				a := start(t, p)
				scaler := a.newScaler()
				a.create(scaler)
				a.release("v2")
				a.until("step 1 waits", a.waiting(1))
				end.play(a)
				a.settled(versions{end.version: 6})
				a.until("the autoscaler is as it was", a.scaledAs(scaler))
				a.until("the sets are as they were", a.setsAs(1))
				a.traceless(end.left...)
			})
		}
	}
}

// scaledAs wants the autoscaler to be as its owner wrote it.
func (a *app) scaledAs(want *autoscalingv2.HorizontalPodAutoscaler) func(context.Context) error {
	return func(ctx context.Context) error {
		h := &autoscalingv2.HorizontalPodAutoscaler{}
		err := here.client.Get(ctx, a.key(name), h)
		if err == nil && (h.Spec.ScaleTargetRef != want.Spec.ScaleTargetRef || len(h.Annotations)+len(h.Labels) > 0) {
			err = fmt.Errorf("the autoscaler scales %v, annotations %v", h.Spec.ScaleTargetRef, h.Annotations)
		}
		return err
	}
}

// setsAs wants every ReplicaSet to have what its Deployment says.
func (a *app) setsAs(minReady int32) func(context.Context) error {
	return func(ctx context.Context) error {
		sets, err := a.sets(ctx)
		for i := range sets {
			if got := sets[i].Spec.MinReadySeconds; got != minReady {
				return fmt.Errorf("pods of %s have to be ready for %d s", sets[i].Name, got)
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

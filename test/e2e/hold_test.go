// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// A Rollout that is gone without having given its workload back, as when somebody
// takes its finalizer off while weir-controller is down: the hold is given back
// when that is up again, and an aborted version is not released by it. This does
// not run beside others, which would miss the controller.
func TestForgottenHold(t *testing.T) {
	aborted := start(t, usual())
	apps := map[string]*app{}
	for _, style := range some(styles, "partition") {
		apps[style] = start(t, styles[style]())
		apps[style].release("v2")
	}
	aborted.release("v2")
	aborted.until("step 1 waits", aborted.waitsAt(1))
	aborted.abort()
	aborted.guard.atMost("v2", 0)
	for _, a := range apps {
		a.until("step 1 waits", a.waiting(1))
	}
	if err := here.cluster.Kill(cluster.WeirController); err != nil {
		t.Fatal(err)
	}
	for _, a := range append(slices.Collect(maps.Values(apps)), aborted) {
		here.admin.kubectl(a, "delete", "rollout", name, "--wait=false").works()
		here.admin.kubectl(a, "patch", "rollout", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`).works()
		a.until("the Rollout is gone", a.gone(&v1beta1.Rollout{}, name))
		a.sees(a.marked)
	}
	if err := here.cluster.Start(cluster.WeirController); err != nil {
		t.Fatal(err)
	}
	for _, a := range apps {
		a.until("it says so", a.told("WorkloadGivenBack", 1))
		a.settled(versions{"v2": 6})
		a.until("nothing is left", a.unmarked)
	}
	aborted.until("it says so", aborted.told("WorkloadGivenBack", 1))
	aborted.until("nothing is left", aborted.unmarked)
	aborted.sees(aborted.held)
	aborted.sees(aborted.runs(versions{"v1": 6}))
}

// marked wants the Deployment to be in Weir's hands.
func (a *app) marked(ctx context.Context) error {
	d, err := a.deployment(ctx)
	if err == nil && d.Annotations["rollouts.kruise.io/in-progressing"] == "" {
		err = errors.New("the Deployment is not held")
	}
	return err
}

// So is a hold that somebody wrote by hand, and one that holds nothing back, as
// Weir may leave one.
func TestHoldByHand(t *testing.T) {
	t.Parallel()
	t.Run("by hand", func(t *testing.T) {
		t.Parallel()
		a := space(t)
		a.plan = plain()
		a.create(a.newDeployment())
		a.until("the Deployment is ready", a.runs(versions{"v1": 6}))
		for times := range int32(2) {
			if err := a.patch(`{"metadata":{"annotations":{"rollouts.kruise.io/in-progressing":"{\"rolloutName\":\"none\"}"}},"spec":{"paused":true}}`); err != nil {
				t.Fatal(err)
			}
			a.until("it says so", a.told("WorkloadGivenBack", times+1))
			a.until("nothing is left", a.unmarked)
		}
		a.release("v2")
		a.until("nobody holds it", a.runs(versions{"v2": 6}))
	})
	t.Run("of no new template", func(t *testing.T) {
		t.Parallel()
		a := start(t, plain())
		a.merge(here.controller(t), name, held)
		a.until("it is given back", func(ctx context.Context) error {
			if a.held(ctx) == nil {
				return errors.New("it is still held")
			}
			return a.healthy(ctx)
		})
		a.traceless(workloadType)
	})
}

// told wants an event about the workload, which tells that it happened so often.
func (a *app) told(reason string, times int32) func(context.Context) error {
	return func(ctx context.Context) error {
		var list corev1.EventList
		if err := here.client.List(ctx, &list, client.InNamespace(a.namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			e := &list.Items[i]
			if e.Reason == reason && e.InvolvedObject.Kind != "Rollout" && (times == 1 || e.Series != nil && e.Series.Count == times) {
				return nil
			}
		}
		return fmt.Errorf("no event %s among %d", reason, len(list.Items))
	}
}

// unmarked wants nothing of Weir's on Deployment and sets.
func (a *app) unmarked(ctx context.Context) error {
	d, err := a.deployment(ctx)
	if err != nil {
		return err
	}
	sets, err := a.sets(ctx)
	objects := []metav1.Object{d}
	for i := range sets {
		objects = append(objects, &sets[i])
	}
	for _, o := range objects {
		for _, marks := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
			for key := range marks {
				if strings.Contains(key, "kruise.io") {
					return fmt.Errorf("%s is left on %s", key, o.GetName())
				}
			}
		}
	}
	return err
}

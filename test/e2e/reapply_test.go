// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// countWrites counts the writes of the Deployment during a function, except for those that only
// update the pod counts of the status.
func (a *app) countWrites(during func()) (all, ours int) {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	events, err := testEnv.client.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(a.namespace), client.MatchingFields{"metadata.name": name})
	if err != nil {
		cancel()
		a.t.Fatal(err)
	}
	during()
	var counted sync.WaitGroup
	counted.Go(func() {
		last, before := int64(0), (*appsv1.Deployment)(nil)
		for e := range events.ResultChan() {
			d, ok := e.Object.(*appsv1.Deployment)
			if !ok {
				continue
			}
			counted := before != nil && !sameButStatus(before, d)
			if before = d; e.Type != watch.Modified || !counted {
				continue
			}
			all++
			latest, by := int64(0), ""
			for _, m := range d.ManagedFields {
				if m.Time != nil && m.Time.Unix() >= latest {
					latest, by = m.Time.Unix(), m.Manager
				}
			}
			if by == "weir-controller" && latest > last {
				ours++
				last = latest
			}
		}
	})
	a.consistently("the Deployment no longer changes", func(context.Context) error { return nil })
	cancel()
	events.Stop()
	counted.Wait()
	return all, ours
}

// sameButStatus reports whether two versions differ only in the status and in fields that the
// server sets on each write.
func sameButStatus(a, b *appsv1.Deployment) bool {
	plain := func(d *appsv1.Deployment) *appsv1.Deployment {
		d = d.DeepCopy()
		d.ResourceVersion, d.ManagedFields, d.Status = "", nil, appsv1.DeploymentStatus{}
		return d
	}
	return equality.Semantic.DeepEqual(plain(a), plain(b))
}

// TestReapply applies the same manifest every second during a release. Steps pause, pods and
// traffic are those of the step, and at the end all fields are the owner's.
func TestReapply(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		plan func() plan
		ways []string
	}{
		"apply":       {defaultPlan, []string{"apply"}},
		"server-side": {defaultPlan, []string{"server-side"}},
		"forced":      {defaultPlan, []string{"forced"}},
		"replace":     {defaultPlan, []string{"replace"}},
		"canary":      {canaryPlan, []string{"apply", "forced", "replace"}},
		"blue-green":  {blueGreenPlan, []string{"apply", "forced", "replace"}},
	}
	for _, kind := range selectCases(cases, "apply") {
		c := cases[kind]
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			o := startWithGitOpsOwner(t, c.plan(), c.ways...)
			stepOne := map[string]versions{"canary": {"v1": 6, "v2": 1}, "blue-green": {"v1": 6, "v2": 3}}[kind]
			if stepOne == nil {
				stepOne = versions{"v1": 4, "v2": 2}
				o.guard.atMost("v2", 2)
			}
			o.setVersion("v2")
			o.eventually("step 1 waits", o.waitsInAnyStyle(1))
			before := o.applied()
			all, ours := o.countWrites(func() {
				o.eventually("the manifest was applied several times", func(context.Context) error {
					if n := o.applied() - before; n < 2*len(c.ways) {
						return fmt.Errorf("%d times", n)
					}
					return nil
				})
			})
			n := o.applied() - before
			t.Logf("applied %d times, which made %d writes, %d of them Weir's", n, all, ours)
			// Replacing the object drops the native controller's annotations, which the controller
			// writes again. Weir writes nothing in addition.
			most := 0
			if slices.Contains(c.ways, "replace") {
				most = 3 * (n + 1)
			}
			if all > most || ours > 0 {
				t.Errorf("applied %d times, which made %d writes, %d of them Weir's", n, all, ours)
			}
			o.checkNow(o.waitsInAnyStyle(1))
			o.checkNow(o.runs(stepOne))
			if kind != "blue-green" { // the first step of this style routes no traffic
				o.checkNow(o.hasCanaryWeight("20"))
			}
			o.eventually("the Service selects v1", o.serviceSelects(name, versions{"v1": stepOne["v1"]}))
			o.guard.atMost("v2", 12)
			o.promoteAll()
			o.eventually("the Rollout is Healthy", o.isHealthy)
			o.awaitPods(versions{"v2": 6})
			o.quit()
			o.done.Wait()
			o.ignoreLastApplied()
			o.checkRestored(workloadTypeLabel)
		})
	}
}

// waitsInAnyStyle returns a check that a step is paused, in any style.
func (a *app) waitsInAnyStyle(step int32) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && (reason(r) != "InRolling" || r.Status.CurrentStepIndex != step || r.Status.CurrentStepState != "StepPaused") {
			err = fmt.Errorf("step %d does not wait: %s, step %d %s", step, describe(r), r.Status.CurrentStepIndex, r.Status.CurrentStepState)
		}
		return err
	}
}

// TestReapplyAborted applies the manifest of an aborted version repeatedly. The version stays
// aborted until the owner reverts the manifest.
func TestReapplyAborted(t *testing.T) {
	t.Parallel()
	plans := map[string]func() plan{"partition": defaultPlan, "canary": canaryPlan, "blue-green": blueGreenPlan}
	for _, style := range selectCases(plans, "partition") {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			o := startWithGitOpsOwner(t, plans[style](), "apply", "forced", "replace")
			o.setVersion("v2")
			o.eventually("step 1 waits", o.waitsInAnyStyle(1))
			o.abort()
			o.eventually("all pods run v1", o.runs(versions{"v1": 6}))
			o.guard.atMost("v2", 0)
			before := o.applied()
			o.eventually("the manifest was applied several times", func(context.Context) error {
				if n := o.applied() - before; n < 6 {
					return fmt.Errorf("%d times", n)
				}
				return nil
			})
			o.checkAborted("v1")
			o.checkNow(o.isAborted)
			o.setVersion("v1")
			o.eventually("the Rollout is Healthy", o.isHealthy)
			o.awaitPods(versions{"v1": 6})
			o.quit()
			o.done.Wait()
			o.ignoreLastApplied()
			o.checkRestored(workloadTypeLabel)
		})
	}
}

// drift returns the paths of fields that differ between the manifest and the stored object, as
// GitOps tools detect them.
func drift(wrote, stored any, path string) []string {
	fields, ok := wrote.(map[string]any)
	if !ok {
		if !equality.Semantic.DeepEqual(wrote, stored) {
			return []string{path}
		}
		return nil
	}
	others, _ := stored.(map[string]any)
	var out []string
	for key, value := range fields {
		out = append(out, drift(value, others[key], path+"."+key)...)
	}
	for key := range others {
		if _, known := fields[key]; !known {
			out = append(out, path+"."+key)
		}
	}
	slices.Sort(out)
	return out
}

// specs returns the fields that the owner's manifest has.
func (a *app) specs(o originalObjects) map[string]any {
	a.t.Helper()
	out := map[string]any{}
	for kind, object := range map[string]any{"Deployment": &o.deployment, "Service": &o.service, "Ingress": &o.ingress} {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			a.t.Fatal(err)
		}
		out[kind] = fields["spec"]
	}
	return out
}

// TestDrift checks that only those fields differ during a release that the documentation tells
// GitOps tools to ignore.
func TestDrift(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		plan func() plan
		want []string
	}{
		"partition": {defaultPlan, []string{
			".Deployment.paused", ".Deployment.revisionHistoryLimit", ".Deployment.strategy.rollingUpdate.maxSurge",
			".Deployment.strategy.rollingUpdate.maxUnavailable", ".Deployment.strategy.type", ".Service.selector.pod-template-hash",
		}},
		"canary": {canaryPlan, []string{".Deployment.paused", ".Deployment.revisionHistoryLimit", ".Service.selector.pod-template-hash"}},
		"blue-green": {blueGreenPlan, []string{
			".Deployment.minReadySeconds", ".Deployment.progressDeadlineSeconds", ".Deployment.revisionHistoryLimit",
			".Deployment.strategy.rollingUpdate.maxSurge", ".Service.selector.pod-template-hash",
		}},
	}
	for _, style := range selectCases(cases, "partition") {
		c := cases[style]
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			p := c.plan()
			p.customizeDeployment = func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32(3)) }
			a := start(t, p)
			a.release("v2")
			a.eventually("step 1 waits", a.waitsInAnyStyle(1))
			now := a.readOriginals()
			now.deployment.Spec.Template = a.before.deployment.Spec.Template
			if diff := cmp.Diff(c.want, drift(a.specs(a.before), a.specs(now), "")); diff != "" {
				t.Errorf("what differs (-want +got):\n%s", diff)
			}
			a.abort()
			a.release("v1")
			a.eventually("the Rollout is Healthy", a.isHealthy)
			a.awaitPods(versions{"v1": 6})
			a.checkRestored(workloadTypeLabel)
		})
	}
}

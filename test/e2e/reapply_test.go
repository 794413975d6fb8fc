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

// writes counts the versions of the Deployment that are stored meanwhile, but
// for those that only say how many pods there are: the native controller may
// still be at that.
func (a *app) writes(during func()) (all, ours int) {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	events, err := here.client.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(a.namespace), client.MatchingFields{"metadata.name": name})
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
	a.stays("it rests", func(context.Context) error { return nil })
	cancel()
	events.Stop()
	counted.Wait()
	return all, ours
}

// sameButStatus reports whether two versions differ in what the server keeps for each
// write and in the status.
func sameButStatus(a, b *appsv1.Deployment) bool {
	plain := func(d *appsv1.Deployment) *appsv1.Deployment {
		d = d.DeepCopy()
		d.ResourceVersion, d.ManagedFields, d.Status = "", nil, appsv1.DeploymentStatus{}
		return d
	}
	return equality.Semantic.DeepEqual(plain(a), plain(b))
}

// An owner who applies the same manifest every second disturbs no release: steps
// wait, pods and traffic are those of the step, and in the end all is the owner's.
func TestReapply(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		plan func() plan
		ways []string
	}{
		"apply":       {usual, []string{"apply"}},
		"server-side": {usual, []string{"server-side"}},
		"forced":      {usual, []string{"forced"}},
		"replace":     {usual, []string{"replace"}},
		"canary":      {beside, []string{"apply", "forced", "replace"}},
		"blue-green":  {switched, []string{"apply", "forced", "replace"}},
	}
	for _, kind := range some(cases, "apply") {
		c := cases[kind]
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			o := owned(t, c.plan(), c.ways...)
			stepOne := map[string]versions{"canary": {"v1": 6, "v2": 1}, "blue-green": {"v1": 6, "v2": 3}}[kind]
			if stepOne == nil {
				stepOne = versions{"v1": 4, "v2": 2}
				o.guard.atMost("v2", 2)
			}
			o.wants("v2")
			o.until("step 1 waits", o.waiting(1))
			before := o.applied()
			all, ours := o.writes(func() {
				o.until("it was applied some times", func(context.Context) error {
					if n := o.applied() - before; n < 2*len(c.ways) {
						return fmt.Errorf("%d times", n)
					}
					return nil
				})
			})
			n := o.applied() - before
			t.Logf("applied %d times, which made %d writes, %d of them Weir's", n, all, ours)
			// Who replaces drops the native controller's notes, which it writes again,
			// and says that it has seen it. Weir adds nothing to that.
			most := 0
			if slices.Contains(c.ways, "replace") {
				most = 3 * (n + 1)
			}
			if all > most || ours > 0 {
				t.Errorf("applied %d times, which made %d writes, %d of them Weir's", n, all, ours)
			}
			o.sees(o.waiting(1))
			o.sees(o.runs(stepOne))
			if kind != "blue-green" { // whose first step routes nothing
				o.sees(o.weight("20"))
			}
			o.until("the Service selects v1", o.serves(name, versions{"v1": stepOne["v1"]}))
			o.guard.atMost("v2", 12)
			o.promoteAll()
			o.until("the Rollout is Healthy", o.healthy)
			o.settled(versions{"v2": 6})
			o.quit()
			o.done.Wait()
			o.noted()
			o.traceless(workloadType)
		})
	}
}

// waiting wants a step to wait, in any style.
func (a *app) waiting(step int32) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.stored(ctx)
		if err == nil && (reason(r) != "InRolling" || r.Status.CurrentStepIndex != step || r.Status.CurrentStepState != "StepPaused") {
			err = fmt.Errorf("step %d does not wait: %s, step %d %s", step, describe(r), r.Status.CurrentStepIndex, r.Status.CurrentStepState)
		}
		return err
	}
}

// An aborted version stays aborted while its manifest is applied again, and goes
// when the owner takes it back in Git.
func TestReapplyAborted(t *testing.T) {
	t.Parallel()
	plans := map[string]func() plan{"partition": usual, "canary": beside, "blue-green": switched}
	for _, style := range some(plans, "partition") {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			o := owned(t, plans[style](), "apply", "forced", "replace")
			o.wants("v2")
			o.until("step 1 waits", o.waiting(1))
			o.abort()
			o.until("all pods run v1", o.runs(versions{"v1": 6}))
			o.guard.atMost("v2", 0)
			before := o.applied()
			o.until("it was applied some times", func(context.Context) error {
				if n := o.applied() - before; n < 6 {
					return fmt.Errorf("%d times", n)
				}
				return nil
			})
			o.isBack("v1")
			o.sees(o.isAborted)
			o.wants("v1")
			o.until("the Rollout is Healthy", o.healthy)
			o.settled(versions{"v1": 6})
			o.quit()
			o.done.Wait()
			o.noted()
			o.traceless(workloadType)
		})
	}
}

// drift is what differs between what the owner wrote and what is stored, field
// by field, as tools see it that compare both.
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

// specs are those of what the owner has.
func (a *app) specs(o original) map[string]any {
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

// What the documentation has tools ignore while a release is under way is what
// differs then, and nothing else.
func TestDrift(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		plan func() plan
		want []string
	}{
		"partition": {usual, []string{
			".Deployment.paused", ".Deployment.revisionHistoryLimit", ".Deployment.strategy.rollingUpdate.maxSurge",
			".Deployment.strategy.rollingUpdate.maxUnavailable", ".Deployment.strategy.type", ".Service.selector.pod-template-hash",
		}},
		"canary": {beside, []string{".Deployment.paused", ".Deployment.revisionHistoryLimit", ".Service.selector.pod-template-hash"}},
		"blue-green": {switched, []string{
			".Deployment.minReadySeconds", ".Deployment.progressDeadlineSeconds", ".Deployment.revisionHistoryLimit",
			".Deployment.strategy.rollingUpdate.maxSurge", ".Service.selector.pod-template-hash",
		}},
	}
	for _, style := range some(cases, "partition") {
		c := cases[style]
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			p := c.plan()
			p.owners = func(d *appsv1.Deployment) { d.Spec.RevisionHistoryLimit = new(int32(3)) }
			a := start(t, p)
			a.release("v2")
			a.until("step 1 waits", a.waiting(1))
			now := a.original()
			now.deployment.Spec.Template = a.before.deployment.Spec.Template
			if diff := cmp.Diff(c.want, drift(a.specs(a.before), a.specs(now), "")); diff != "" {
				t.Errorf("what differs (-want +got):\n%s", diff)
			}
			a.abort()
			a.release("v1")
			a.until("the Rollout is Healthy", a.healthy)
			a.settled(versions{"v1": 6})
			a.traceless(workloadType)
		})
	}
}

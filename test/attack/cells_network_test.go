// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

var networkCells = []cell{
	{who: networker, what: forge, how: "records on Service and Ingress before the release", scenario: scenario{withTraffic: true},
		attack: forgesRecords, expect: networkIsRestored(func(a *app) {
			a.setVersion("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			releaseCompletes(a)
		})},
	{who: networker, what: forge, how: "records on Service and Ingress during the release", scenario: scenario{withTraffic: true, at: atStep1},
		attack: forgesRecords, expect: networkIsRestored(releaseCompletes)},
	{who: networker, what: destroy, how: "owns what the canary objects would be called", scenario: scenario{withTraffic: true}, attack: createsCanaryNames, expect: ownObjectsSurvive},
	{who: editor, what: blockAbort, how: "two Rollouts at one Ingress", scenario: scenario{withTraffic: true}, attack: sharesIngress, expect: releasesDoNotConflict},
	{who: editor, what: destroy, how: "a Rollout at the Service of another application", scenario: scenario{withTraffic: true, customizeRollout: withServiceOfWeb}, attack: usesServiceOfOtherApp, expect: serviceIsUnchanged},
	{who: editor, what: ship, how: "a Deployment named like an extra one", scenario: scenario{canary: true}, attack: createsNameOfExtraDeployment, expect: bothAreReleased},
}

// forgesRecords writes what Weir would believe to be the owner's own.
func forgesRecords(a *app, u *user) {
	a.t.Helper()
	forged := object{"annotations": object{
		"rollouts.kruise.io/original-spec-configuration": `{"spec":{"selector":{"app":"other"},"rules":[]}}`,
		"rollouts.kruise.io/routed":                      `{"weight":100}`, "rollouts.kruise.io/routed-by": "other",
	}, "labels": object{stableLabel: "other"}}
	a.attackWith(u, patch("/api/v1/namespaces/"+a.namespace+"/services/web", encode(object{"metadata": forged})))
	a.attackWith(u, patch("/apis/networking.k8s.io/v1/namespaces/"+a.namespace+"/ingresses/web", encode(object{"metadata": forged})))
}

// networkIsRestored wants Service and Ingress to be those of their owner when a release is over.
func networkIsRestored(end func(*app)) func(*app) {
	return func(a *app) {
		a.t.Helper()
		a.answered(refusedOrNeutralized...)
		end(a)
		a.eventually("nothing is left beside it", a.hasNoReleaseObjects)
		s, i := &corev1.Service{}, &networkingv1.Ingress{}
		if err := errors.Join(testEnv.client.Get(a.t.Context(), a.key(name), s), testEnv.client.Get(a.t.Context(), a.key(name), i)); err != nil {
			a.t.Fatal(err)
		}
		if diff := cmp.Diff(a.ingress().Spec.Rules, i.Spec.Rules); diff != "" {
			a.t.Errorf("the Ingress is another (-owner's +now):\n%s", diff)
		}
		if diff := cmp.Diff(a.labels(), s.Spec.Selector); diff != "" {
			a.t.Errorf("the Service selects others (-owner's +now):\n%s", diff)
		}
	}
}

// hasNoReleaseObjects wants no object of a release to be left, and nothing to be pinned.
func (a *app) hasNoReleaseObjects(ctx context.Context) error {
	var services corev1.ServiceList
	var ingresses networkingv1.IngressList
	in := client.InNamespace(a.namespace)
	if err := errors.Join(testEnv.client.List(ctx, &services, in), testEnv.client.List(ctx, &ingresses, in)); err != nil {
		return err
	}
	for i := range services.Items {
		if s := &services.Items[i]; strings.HasSuffix(s.Name, "-canary") || len(s.Spec.Selector) > 1 {
			return fmt.Errorf("Service %s selects %v", s.Name, s.Spec.Selector)
		}
	}
	for i := range ingresses.Items {
		if n := ingresses.Items[i].Name; strings.HasSuffix(n, "-canary") {
			return fmt.Errorf("there is an Ingress %s", n)
		}
	}
	return nil
}

// createsCanaryNames makes objects of the names that a release would take.
func createsCanaryNames(a *app, u *user) {
	a.t.Helper()
	s, i := a.service(), a.ingress()
	s.Name, i.Name = name+"-canary", name+"-canary"
	s.Spec.Selector = map[string]string{"app": "mine"}
	i.Spec.IngressClassName = new("mine")
	s.APIVersion, s.Kind, i.APIVersion, i.Kind = "v1", "Service", "networking.k8s.io/v1", "Ingress"
	a.attackWith(u, post("/api/v1/namespaces/"+a.namespace+"/services", encode(s)))
	a.attackWith(u, post("/apis/networking.k8s.io/v1/namespaces/"+a.namespace+"/ingresses", encode(i)))
}

// ownObjectsSurvive wants them to be there and as they were after a release that was
// tried and taken back, and after the Rollout is gone.
func ownObjectsSurvive(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	s, i := a.canaries()
	a.setVersion("v2")
	a.eventually("the release says what is in its way, or waits", func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && strings.Contains(r.Status.Message, name+"-canary") {
			return nil
		}
		return errors.Join(err, a.waitsAtStep(1)(ctx))
	})
	a.verb(testEnv.admin, "abort", "")
	a.checkAbortEnds()
	a.verb(testEnv.admin, "rollback", "")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	r, err := a.getRollout(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	if err := testEnv.client.Delete(a.t.Context(), r); err != nil {
		a.t.Fatal(err)
	}
	a.eventually("the Rollout is gone", func(ctx context.Context) error {
		if _, err := a.getRollout(ctx); err == nil {
			return errors.New("it is there")
		}
		return nil
	})
	sNow, iNow := a.canaries()
	if diff := cmp.Diff(s.Spec, sNow.Spec) + cmp.Diff(i.Spec, iNow.Spec) + cmp.Diff(i.Annotations, iNow.Annotations); diff != "" || s.UID != sNow.UID || i.UID != iNow.UID {
		a.t.Errorf("what was somebody's own was changed (-before +now):\n%s", diff)
	}
}

func (a *app) canaries() (*corev1.Service, *networkingv1.Ingress) {
	a.t.Helper()
	s, i := &corev1.Service{}, &networkingv1.Ingress{}
	if err := errors.Join(testEnv.client.Get(a.t.Context(), a.key(name+"-canary"), s), testEnv.client.Get(a.t.Context(), a.key(name+"-canary"), i)); err != nil {
		a.t.Fatal(err)
	}
	return s, i
}

// sharesIngress has the Ingress lead to a second Service, whose Rollout names it as well.
func sharesIngress(a *app, u *user) {
	a.t.Helper()
	i := a.ingress(name, "other")
	a.attackWith(u, patch("/apis/networking.k8s.io/v1/namespaces/"+a.namespace+"/ingresses/web", encode(object{"spec": object{"rules": i.Spec.Rules}})))
	b := a.startSecondApp("other")
	a.attackWith(u, patch(a.path(), change{version: "v2"}.body()))
	a.attackWith(u, patch(b.path(), change{version: "v2"}.body()))
}

// releasesDoNotConflict wants the canary Ingress to come to rest, one Rollout to wait at its
// step, the other to wait, too, or to say for what, and both to end.
func releasesDoNotConflict(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	writes := a.countIngressWrites(name + "-canary")
	b := &app{t: a.t, namespace: a.namespace, name: "other", scene: a.scene, seen: a.seen}
	a.t.Cleanup(b.logState)
	waits := func(a, other *app) func(context.Context) error {
		return func(ctx context.Context) error {
			r, err := a.getRollout(ctx)
			if message := strings.ToLower(r.Status.Message); err == nil && strings.Contains(message, "ingress") && strings.Contains(message, other.name) {
				return nil
			}
			return errors.Join(err, a.waitsAtStep(1)(ctx))
		}
	}
	a.eventually("the first waits", waits(a, b))
	a.eventually("the second waits", waits(b, a))
	first, second := a, b
	if b.waitsAtStep(1)(a.t.Context()) == nil && a.waitsAtStep(1)(a.t.Context()) != nil {
		first, second = b, a
	}
	for _, x := range []*app{first, second} {
		x.eventually("step 1 of "+x.name+" waits", x.waitsAtStep(1))
		x.verb(testEnv.admin, "promote", `{"full":true}`)
		x.eventually(x.name+" is Healthy", x.isHealthy)
		x.eventually(x.name+" runs v2", x.runs(versions{"v2": 3}))
	}
	a.eventually("nothing is left beside them", a.hasNoReleaseObjects)
	if n := writes.Load(); n > 40 {
		a.t.Errorf("the canary Ingress was written %d times by two releases of three steps", n)
	}
}

// countIngressWrites counts how often an Ingress is written from now on.
func (a *app) countIngressWrites(ingress string) *atomic.Int64 {
	a.t.Helper()
	ctx, quit := context.WithCancel(context.Background())
	events, err := testEnv.client.Watch(ctx, &networkingv1.IngressList{}, client.InNamespace(a.namespace))
	if err != nil {
		quit()
		a.t.Fatal(err)
	}
	n := &atomic.Int64{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events.ResultChan() {
			if i, ok := e.Object.(*networkingv1.Ingress); ok && i.Name == ingress {
				n.Add(1)
			}
		}
	}()
	a.t.Cleanup(func() {
		quit()
		<-done
	})
	return n
}

// withServiceOfWeb has each Rollout of a namespace name the Service of web.
func withServiceOfWeb(r *v1beta1.Rollout) { r.Spec.Strategy.Canary.TrafficRoutings[0].Service = name }

// usesServiceOfOtherApp releases another application by the Service of web.
func usesServiceOfOtherApp(a *app, u *user) {
	a.t.Helper()
	b := a.startSecondApp("other")
	a.attackWith(u, patch(b.path(), change{version: "v2"}.body()))
}

// serviceIsUnchanged wants the Service to select what it did, the release to say why it
// waits, its abort to end, and web to go on.
func serviceIsUnchanged(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	b := &app{t: a.t, namespace: a.namespace, name: "other", scene: a.scene, seen: a.seen}
	a.t.Cleanup(b.logState)
	b.eventually("it says that the Service is another's", func(ctx context.Context) error {
		r, err := b.getRollout(ctx)
		if err == nil && !strings.Contains(r.Status.Message, "not the pods of the workload") {
			err = errors.New(describe(r))
		}
		return err
	})
	b.verb(testEnv.admin, "abort", "")
	b.checkAbortEnds()
	s := &corev1.Service{}
	if err := testEnv.client.Get(a.t.Context(), a.key(name), s); err != nil {
		a.t.Fatal(err)
	}
	if diff := cmp.Diff(a.labels(), s.Spec.Selector); diff != "" {
		a.t.Errorf("the Service selects others (-owner's +now):\n%s", diff)
	}
	a.checkNextRelease()
}

// createsNameOfExtraDeployment makes an application with a name that an extra Deployment of web
// could have, and has it ship.
func createsNameOfExtraDeployment(a *app, u *user) {
	a.t.Helper()
	b := a.startSecondApp(name + "-canary-blue")
	a.attackWith(u, patch(b.path(), change{version: "v2"}.body()))
}

// bothAreReleased wants it to be held as any other, and the release of web to leave it alone.
func bothAreReleased(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	b := &app{t: a.t, namespace: a.namespace, name: name + "-canary-blue", scene: a.scene, seen: a.seen}
	a.t.Cleanup(b.logState)
	b.eventually("it waits at step 1", b.waitsAtStep(1))
	b.eventually("it runs one pod beside", b.runs(versions{"v1": 3, "v2": 1}))
	a.checkNextRelease()
	b.checkNow(b.waitsAtStep(1))
	releaseCompletes(b)
}

// checkNow wants something to be so now.
func (a *app) checkNow(ask func(context.Context) error) {
	a.t.Helper()
	if err := ask(a.t.Context()); err != nil {
		a.t.Error(err)
	}
}

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
	{who: networker, what: forge, how: "writes records on Service and Ingress before the release", scenario: scenario{withTraffic: true},
		attack: forgesRecords, expect: networkIsRestored(func(a *app) {
			a.setVersion("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			releaseCompletes(a)
		})},
	{who: networker, what: forge, how: "writes records on Service and Ingress during the release", scenario: scenario{withTraffic: true, at: atStep1},
		attack: forgesRecords, expect: networkIsRestored(releaseCompletes)},
	{who: networker, what: destroy, how: "creates objects with the names of the canary objects", scenario: scenario{withTraffic: true}, attack: createsCanaryNames, expect: ownObjectsSurvive},
	{who: editor, what: blockAbort, how: "two Rollouts with one Ingress", scenario: scenario{withTraffic: true}, attack: sharesIngress, expect: releasesDoNotConflict},
	{who: editor, what: destroy, how: "a Rollout with the Service of another application", scenario: scenario{withTraffic: true, customizeRollout: withServiceOfWeb}, attack: usesServiceOfOtherApp, expect: serviceIsUnchanged},
	{who: editor, what: ship, how: "a Deployment with the name of an extra one", scenario: scenario{canary: true}, attack: createsNameOfExtraDeployment, expect: bothAreReleased},
}

// forgesRecords writes annotations that Weir could take for the saved settings of the owner.
func forgesRecords(a *app, u *user) {
	a.t.Helper()
	forged := object{"annotations": object{
		"rollouts.kruise.io/original-spec-configuration": `{"spec":{"selector":{"app":"other"},"rules":[]}}`,
		"rollouts.kruise.io/routed":                      `{"weight":100}`, "rollouts.kruise.io/routed-by": "other",
	}, "labels": object{stableLabel: "other"}}
	a.attackWith(u, patch("/api/v1/namespaces/"+a.namespace+"/services/web", encode(object{"metadata": forged})))
	a.attackWith(u, patch("/apis/networking.k8s.io/v1/namespaces/"+a.namespace+"/ingresses/web", encode(object{"metadata": forged})))
}

// networkIsRestored expects that Service and Ingress are as their owner wrote them when a release
// has ended.
func networkIsRestored(end func(*app)) func(*app) {
	return func(a *app) {
		a.t.Helper()
		a.answered(refusedOrNeutralized...)
		end(a)
		a.eventually("no objects of the release are left", a.hasNoReleaseObjects)
		s, i := &corev1.Service{}, &networkingv1.Ingress{}
		if err := errors.Join(testEnv.client.Get(a.t.Context(), a.key(name), s), testEnv.client.Get(a.t.Context(), a.key(name), i)); err != nil {
			a.t.Fatal(err)
		}
		if diff := cmp.Diff(a.ingress().Spec.Rules, i.Spec.Rules); diff != "" {
			a.t.Errorf("the Ingress has changed (-owner's +now):\n%s", diff)
		}
		if diff := cmp.Diff(a.labels(), s.Spec.Selector); diff != "" {
			a.t.Errorf("the selector of the Service has changed (-owner's +now):\n%s", diff)
		}
	}
}

// hasNoReleaseObjects returns an error if an object of a release is left, or a Service is pinned.
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

// createsCanaryNames creates objects with the names that a release would use.
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

// ownObjectsSurvive expects that these objects are unchanged after a release that was tried and
// reverted, and after the Rollout is deleted.
func ownObjectsSurvive(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	s, i := a.canaries()
	a.setVersion("v2")
	a.eventually("the release reports what blocks it, or waits", func(ctx context.Context) error {
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
			return errors.New("the Rollout exists")
		}
		return nil
	})
	sNow, iNow := a.canaries()
	if diff := cmp.Diff(s.Spec, sNow.Spec) + cmp.Diff(i.Spec, iNow.Spec) + cmp.Diff(i.Annotations, iNow.Annotations); diff != "" || s.UID != sNow.UID || i.UID != iNow.UID {
		a.t.Errorf("objects of the user have changed (-before +now):\n%s", diff)
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

// sharesIngress adds a second Service to the Ingress, and a second Rollout that references the
// Ingress as well.
func sharesIngress(a *app, u *user) {
	a.t.Helper()
	i := a.ingress(name, "other")
	a.attackWith(u, patch("/apis/networking.k8s.io/v1/namespaces/"+a.namespace+"/ingresses/web", encode(object{"spec": object{"rules": i.Spec.Rules}})))
	b := a.startSecondApp("other")
	a.attackWith(u, patch(a.path(), change{version: "v2"}.body()))
	a.attackWith(u, patch(b.path(), change{version: "v2"}.body()))
}

// releasesDoNotConflict expects that the canary Ingress does not change all the time, that one
// Rollout waits at its step, that the other also waits or reports why it cannot, and that both end.
func releasesDoNotConflict(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	writes := a.countIngressWrites(name + "-canary")
	b := &app{t: a.t, namespace: a.namespace, name: "other", scene: a.scene, monitor: a.monitor}
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
	a.eventually("no objects of the releases are left", a.hasNoReleaseObjects)
	if n := writes.Load(); n > 40 {
		a.t.Errorf("the canary Ingress was written %d times by two releases of three steps", n)
	}
}

// countIngressWrites counts the writes of an Ingress from now on.
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

// withServiceOfWeb makes each Rollout of the namespace reference the Service web.
func withServiceOfWeb(r *v1beta1.Rollout) { r.Spec.Strategy.Canary.TrafficRoutings[0].Service = name }

// usesServiceOfOtherApp releases another application that references the Service of web.
func usesServiceOfOtherApp(a *app, u *user) {
	a.t.Helper()
	b := a.startSecondApp("other")
	a.attackWith(u, patch(b.path(), change{version: "v2"}.body()))
}

// serviceIsUnchanged expects that the selector of the Service does not change, that the release
// reports why it waits, that its abort ends, and that web can be released.
func serviceIsUnchanged(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	b := &app{t: a.t, namespace: a.namespace, name: "other", scene: a.scene, monitor: a.monitor}
	a.t.Cleanup(b.logState)
	b.eventually("the Rollout reports that the Service selects other pods", func(ctx context.Context) error {
		r, err := b.getRollout(ctx)
		if err == nil && !strings.Contains(r.Status.Message, "does not match the pods of the workload") {
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
		a.t.Errorf("the selector of the Service has changed (-owner's +now):\n%s", diff)
	}
	a.checkNextRelease()
}

// createsNameOfExtraDeployment creates an application with a name that an extra Deployment of web
// could have, and sets its version.
func createsNameOfExtraDeployment(a *app, u *user) {
	a.t.Helper()
	b := a.startSecondApp(name + "-canary-blue")
	a.attackWith(u, patch(b.path(), change{version: "v2"}.body()))
}

// bothAreReleased expects that it is held like any other, and that the release of web does not
// change it.
func bothAreReleased(a *app) {
	a.t.Helper()
	a.answered(refusedOrNeutralized...)
	b := &app{t: a.t, namespace: a.namespace, name: name + "-canary-blue", scene: a.scene, monitor: a.monitor}
	a.t.Cleanup(b.logState)
	b.eventually("the other Rollout waits at step 1", b.waitsAtStep(1))
	b.eventually("the extra Deployment has one pod", b.runs(versions{"v1": 3, "v2": 1}))
	a.checkNextRelease()
	b.checkNow(b.waitsAtStep(1))
	releaseCompletes(b)
}

// checkNow fails the test if the condition returns an error now.
func (a *app) checkNow(ask func(context.Context) error) {
	a.t.Helper()
	if err := ask(a.t.Context()); err != nil {
		a.t.Error(err)
	}
}

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
	{who: networker, what: forge, how: "records on Service and Ingress before the release", on: scene{routed: true},
		do: forgesRecords, expect: givenBack(func(a *app) {
			a.ships("v2")
			a.until("step 1 waits", a.waitsAt(1))
			finished(a)
		})},
	{who: networker, what: forge, how: "records on Service and Ingress during the release", on: scene{routed: true, at: midway},
		do: forgesRecords, expect: givenBack(finished)},
	{who: networker, what: destroy, how: "owns what the canary objects would be called", on: scene{routed: true}, do: ownsCanaries, expect: keepsCanaries},
	{who: editor, what: blockAbort, how: "two Rollouts at one Ingress", on: scene{routed: true}, do: sharesIngress, expect: nobodyFights},
	{who: editor, what: destroy, how: "a Rollout at the Service of another application", on: scene{routed: true, change: atServiceOfWeb}, do: takesService, expect: keepsService},
	{who: editor, what: ship, how: "a Deployment named like an extra one", on: scene{beside: true}, do: namedLikeExtra, expect: bothHeld},
}

// forgesRecords writes what Weir would believe to be the owner's own.
func forgesRecords(a *app, u *user) {
	a.t.Helper()
	forged := object{"annotations": object{
		"rollouts.kruise.io/original-spec-configuration": `{"spec":{"selector":{"app":"other"},"rules":[]}}`,
		"rollouts.kruise.io/routed":                      `{"weight":100}`, "rollouts.kruise.io/routed-by": "other",
	}, "labels": object{stableLabel: "other"}}
	a.tries(u, patch("/api/v1/namespaces/"+a.namespace+"/services/web", encode(object{"metadata": forged})))
	a.tries(u, patch("/apis/networking.k8s.io/v1/namespaces/"+a.namespace+"/ingresses/web", encode(object{"metadata": forged})))
}

// givenBack wants Service and Ingress to be those of their owner when a release is over.
func givenBack(end func(*app)) func(*app) {
	return func(a *app) {
		a.t.Helper()
		a.answered(either...)
		end(a)
		a.until("nothing is left beside it", a.tidy)
		s, i := &corev1.Service{}, &networkingv1.Ingress{}
		if err := errors.Join(here.client.Get(a.t.Context(), a.key(name), s), here.client.Get(a.t.Context(), a.key(name), i)); err != nil {
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

// tidy wants no object of a release to be left, and nothing to be pinned.
func (a *app) tidy(ctx context.Context) error {
	var services corev1.ServiceList
	var ingresses networkingv1.IngressList
	in := client.InNamespace(a.namespace)
	if err := errors.Join(here.client.List(ctx, &services, in), here.client.List(ctx, &ingresses, in)); err != nil {
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

// ownsCanaries makes objects of the names that a release would take.
func ownsCanaries(a *app, u *user) {
	a.t.Helper()
	s, i := a.service(), a.ingress()
	s.Name, i.Name = name+"-canary", name+"-canary"
	s.Spec.Selector = map[string]string{"app": "mine"}
	i.Spec.IngressClassName = new("mine")
	s.APIVersion, s.Kind, i.APIVersion, i.Kind = "v1", "Service", "networking.k8s.io/v1", "Ingress"
	a.tries(u, post("/api/v1/namespaces/"+a.namespace+"/services", encode(s)))
	a.tries(u, post("/apis/networking.k8s.io/v1/namespaces/"+a.namespace+"/ingresses", encode(i)))
}

// keepsCanaries wants them to be there and as they were after a release that was
// tried and taken back, and after the Rollout is gone.
func keepsCanaries(a *app) {
	a.t.Helper()
	a.answered(either...)
	s, i := a.canaries()
	a.ships("v2")
	a.until("the release says what is in its way, or waits", func(ctx context.Context) error {
		r, err := a.stored(ctx)
		if err == nil && strings.Contains(r.Status.Message, name+"-canary") {
			return nil
		}
		return errors.Join(err, a.waitsAt(1)(ctx))
	})
	a.verb(here.admin, "abort", "")
	a.ends()
	a.verb(here.admin, "rollback", "")
	a.until("the Rollout is Healthy", a.healthy)
	r, err := a.stored(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	if err := here.client.Delete(a.t.Context(), r); err != nil {
		a.t.Fatal(err)
	}
	a.until("the Rollout is gone", func(ctx context.Context) error {
		if _, err := a.stored(ctx); err == nil {
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
	if err := errors.Join(here.client.Get(a.t.Context(), a.key(name+"-canary"), s), here.client.Get(a.t.Context(), a.key(name+"-canary"), i)); err != nil {
		a.t.Fatal(err)
	}
	return s, i
}

// sharesIngress has the Ingress lead to a second Service, whose Rollout names it as well.
func sharesIngress(a *app, u *user) {
	a.t.Helper()
	i := a.ingress(name, "other")
	a.tries(u, patch("/apis/networking.k8s.io/v1/namespaces/"+a.namespace+"/ingresses/web", encode(object{"spec": object{"rules": i.Spec.Rules}})))
	b := a.another("other")
	a.tries(u, patch(a.path(), change{version: "v2"}.body()))
	a.tries(u, patch(b.path(), change{version: "v2"}.body()))
}

// nobodyFights wants the canary Ingress to come to rest, one Rollout to wait at its
// step, the other to wait, too, or to say for what, and both to end.
func nobodyFights(a *app) {
	a.t.Helper()
	a.answered(either...)
	writes := a.writesOf(name + "-canary")
	b := &app{t: a.t, namespace: a.namespace, name: "other", scene: a.scene, seen: a.seen}
	a.t.Cleanup(b.report)
	waits := func(a, other *app) func(context.Context) error {
		return func(ctx context.Context) error {
			r, err := a.stored(ctx)
			if message := strings.ToLower(r.Status.Message); err == nil && strings.Contains(message, "ingress") && strings.Contains(message, other.name) {
				return nil
			}
			return errors.Join(err, a.waitsAt(1)(ctx))
		}
	}
	a.until("the first waits", waits(a, b))
	a.until("the second waits", waits(b, a))
	first, second := a, b
	if b.waitsAt(1)(a.t.Context()) == nil && a.waitsAt(1)(a.t.Context()) != nil {
		first, second = b, a
	}
	for _, x := range []*app{first, second} {
		x.until("step 1 of "+x.name+" waits", x.waitsAt(1))
		x.verb(here.admin, "promote", `{"full":true}`)
		x.until(x.name+" is Healthy", x.healthy)
		x.until(x.name+" runs v2", x.runs(versions{"v2": 3}))
	}
	a.until("nothing is left beside them", a.tidy)
	if n := writes.Load(); n > 40 {
		a.t.Errorf("the canary Ingress was written %d times by two releases of three steps", n)
	}
}

// writesOf counts how often an Ingress is written from now on.
func (a *app) writesOf(ingress string) *atomic.Int64 {
	a.t.Helper()
	ctx, quit := context.WithCancel(context.Background())
	events, err := here.client.Watch(ctx, &networkingv1.IngressList{}, client.InNamespace(a.namespace))
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

// atServiceOfWeb has each Rollout of a namespace name the Service of web.
func atServiceOfWeb(r *v1beta1.Rollout) { r.Spec.Strategy.Canary.TrafficRoutings[0].Service = name }

// takesService releases another application by the Service of web.
func takesService(a *app, u *user) {
	a.t.Helper()
	b := a.another("other")
	a.tries(u, patch(b.path(), change{version: "v2"}.body()))
}

// keepsService wants the Service to select what it did, the release to say why it
// waits, its abort to end, and web to go on.
func keepsService(a *app) {
	a.t.Helper()
	a.answered(either...)
	b := &app{t: a.t, namespace: a.namespace, name: "other", scene: a.scene, seen: a.seen}
	a.t.Cleanup(b.report)
	b.until("it says that the Service is another's", func(ctx context.Context) error {
		r, err := b.stored(ctx)
		if err == nil && !strings.Contains(r.Status.Message, "not the pods of the workload") {
			err = errors.New(describe(r))
		}
		return err
	})
	b.verb(here.admin, "abort", "")
	b.ends()
	s := &corev1.Service{}
	if err := here.client.Get(a.t.Context(), a.key(name), s); err != nil {
		a.t.Fatal(err)
	}
	if diff := cmp.Diff(a.labels(), s.Spec.Selector); diff != "" {
		a.t.Errorf("the Service selects others (-owner's +now):\n%s", diff)
	}
	a.goesOn()
}

// namedLikeExtra makes an application with a name that an extra Deployment of web
// could have, and has it ship.
func namedLikeExtra(a *app, u *user) {
	a.t.Helper()
	b := a.another(name + "-canary-blue")
	a.tries(u, patch(b.path(), change{version: "v2"}.body()))
}

// bothHeld wants it to be held as any other, and the release of web to leave it alone.
func bothHeld(a *app) {
	a.t.Helper()
	a.answered(either...)
	b := &app{t: a.t, namespace: a.namespace, name: name + "-canary-blue", scene: a.scene, seen: a.seen}
	a.t.Cleanup(b.report)
	b.until("it waits at step 1", b.waitsAt(1))
	b.until("it runs one pod beside", b.runs(versions{"v1": 3, "v2": 1}))
	a.goesOn()
	b.sees(b.waitsAt(1))
	finished(b)
}

// sees wants something to be so now.
func (a *app) sees(ask func(context.Context) error) {
	a.t.Helper()
	if err := ask(a.t.Context()); err != nil {
		a.t.Error(err)
	}
}

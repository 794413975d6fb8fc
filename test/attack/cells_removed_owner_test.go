// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	nginxCanary = "nginx.ingress.kubernetes.io/canary"
	nginxWeight = "nginx.ingress.kubernetes.io/canary-weight"
)

// removedOwnerCells remove the owner references or labels by which objects are found.
var removedOwnerCells = []cell{
	{who: editor, what: ship, how: "removes the owner of the stable ReplicaSet", scenario: scenario{at: atStep1}, attack: stripsStableReplicaSet(withoutOwner), expect: noSurplusPods},
	{who: editor, what: ship, how: "removes the labels of the stable ReplicaSet of a canary release", long: true, scenario: scenario{canary: true, at: atStep1},
		attack: stripsStableReplicaSet(withoutLabels), expect: abortStalls},
	{who: networker, what: blockAbort, how: "removes the owner of the canary Service", scenario: scenario{withTraffic: true, at: atStep1}, attack: removesOwners(servicePath), expect: noRequestIsLost},
}

var (
	withoutOwner  = object{"metadata": object{"ownerReferences": nil}}
	withoutLabels = object{"metadata": object{"labels": nil}}
)

// stableReplicaSet returns the ReplicaSet of v1.
func (a *app) stableReplicaSet() *appsv1.ReplicaSet {
	a.t.Helper()
	sets := &appsv1.ReplicaSetList{}
	if err := testEnv.client.List(a.t.Context(), sets, client.InNamespace(a.namespace)); err != nil {
		a.t.Fatal(err)
	}
	for i := range sets.Items {
		if s := &sets.Items[i]; versionOf(deployments, s.ObjectMeta, s.Spec.Template.Spec) == "v1" {
			return s
		}
	}
	a.t.Fatal("no ReplicaSet is of v1")
	return nil
}

// stripsStableReplicaSet removes an owner or labels from the stable ReplicaSet, and waits until the
// native controller has counted without it, or has adopted it again.
func stripsStableReplicaSet(what object) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		s := a.stableReplicaSet()
		a.attackWith(u, patch(a.setPath(s.Name), encode(what)))
		a.eventually("the native controller has observed the change", func(ctx context.Context) error {
			o, _, err := a.liveWorkload(ctx)
			if err != nil {
				return err
			}
			now := &appsv1.ReplicaSet{}
			if err := testEnv.client.Get(ctx, a.key(s.Name), now); err != nil {
				return err
			}
			if total := o.(*appsv1.Deployment).Status.Replicas; len(now.OwnerReferences) == 0 && total > *s.Spec.Replicas {
				return fmt.Errorf("%d pods are counted", total)
			}
			return nil
		})
		a.mustSend(testEnv.admin, patch(a.path(), `{"metadata":{"annotations":{"example.com/seen":"true"}}}`))
	}
}

// noSurplusPods expects that the new version never has more pods than its step allows, whether the
// release continues, waits or is aborted.
func noSurplusPods(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.eventually("the release waits, or reports what blocks it", func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && strings.Contains(r.Status.Message, a.stableReplicaSet().Name) {
			return nil
		}
		return errors.Join(err, a.waitsAtStep(1)(ctx))
	})
	a.atMost(1, "v2")
	a.verb(a.userWithRole(manager), "abort", "")
	a.eventually("the release is aborted, or reports what blocks it", func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && strings.Contains(r.Status.Message, a.stableReplicaSet().Name) {
			return nil
		}
		return errors.Join(err, a.isAborted(ctx))
	})
	a.eventually("v2 has no pods", func(ctx context.Context) error {
		pods, err := a.pods(ctx)
		if err == nil && (pods["v2"] > 0 || pods["v1"] < 3) {
			err = fmt.Errorf("runs %v", pods)
		}
		return err
	})
	a.atMost(1, "v2")
}

// abortStalls expects that an abort stalls, that the new version never has more pods than its step
// allows, and that the release ends when the owner sets the earlier template.
func abortStalls(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.verb(a.userWithRole(manager), "abort", "")
	a.eventually("the Rollout reports the deleted ReplicaSet", a.isStalledFor("StableGone"))
	a.setVersion("v1")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.atMost(1, "v2")
}

// removesOwners removes the owner references of objects.
func removesOwners(paths ...func(*app) string) func(*app, *user) {
	return func(a *app, u *user) {
		a.t.Helper()
		for _, path := range paths {
			a.attackWith(u, patch(path(a), encode(withoutOwner)))
		}
	}
}

// noRequestIsLost expects that after an abort no request is routed to a Service without pods, or
// that the Rollout names the object that does.
func noRequestIsLost(a *app) {
	a.t.Helper()
	a.answered(http.StatusOK)
	a.verb(a.userWithRole(manager), "abort", "")
	a.eventually("no request is lost, or the Rollout reports where", func(ctx context.Context) error {
		lost := a.ingressWithoutPods(ctx)
		r, err := a.getRollout(ctx)
		if lost == nil || err != nil {
			return errors.Join(err, a.isAborted(ctx))
		}
		if told := r.Status.Message + fmt.Sprint(r.Status.Conditions); !strings.Contains(told, name+"-canary") {
			return fmt.Errorf("%w; it is %s", lost, describe(r))
		}
		return nil
	})
	a.eventually("v1 serves", a.runs(versions{"v1": 3}))
	a.atMost(1, "v2")
}

// ingressWithoutPods returns an error with the Ingress that routes requests to a Service without
// pods.
func (a *app) ingressWithoutPods(ctx context.Context) error {
	var ingresses networkingv1.IngressList
	if err := testEnv.client.List(ctx, &ingresses, client.InNamespace(a.namespace)); err != nil {
		return err
	}
	for i := range ingresses.Items {
		in := &ingresses.Items[i]
		if weight := in.Annotations[nginxWeight]; in.Annotations[nginxCanary] == "true" && (weight == "" || weight == "0") {
			continue // no traffic is routed to it
		}
		for _, path := range in.Spec.Rules[0].HTTP.Paths {
			service, pods := &corev1.Service{}, &corev1.PodList{}
			to := path.Backend.Service.Name
			if err := testEnv.client.Get(ctx, a.key(to), service); err != nil {
				return fmt.Errorf("Ingress %s routes to Service %s: %w", in.Name, to, err)
			}
			err := testEnv.client.List(ctx, pods, client.InNamespace(a.namespace), client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(service.Spec.Selector)})
			if err != nil || len(pods.Items) == 0 {
				return errors.Join(err, fmt.Errorf("Ingress %s routes to Service %s, which selects no pod", in.Name, to))
			}
		}
	}
	return nil
}

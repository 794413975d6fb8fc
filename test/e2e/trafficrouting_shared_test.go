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
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
)

// TestTrafficRoutingShared has two Rollouts that reference one TrafficRouting. Its route stays when
// the first release ends, and is removed with the second.
func TestTrafficRoutingShared(t *testing.T) {
	t.Parallel()
	weight, grace := int32(20), int32(1)
	r := newTrafficRouting(v1alpha1.TrafficRoutingRef{
		Service: name, GracePeriodSeconds: &grace, Ingress: &v1alpha1.IngressRef{Name: name},
	}, v1alpha1.TrafficRoutingStrategy{Weight: &weight})
	a := start(t, planWithTrafficRouting(r))
	a.create(r)
	other := a.startSecondApp("other")
	a.eventually("the TrafficRouting is Healthy", a.trafficRoutingPhase("Healthy"))

	a.release("v2")
	other.releaseNamed("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.eventually("step 1 of the other waits", other.waitsAtStep(1))
	a.checkNow(a.trafficRoutingUsedBy(name, other.rollout))
	a.promoteAll()
	a.eventually("the first Rollout is Healthy", a.isHealthy)
	a.checkNow(a.trafficRoutingUsedBy(other.rollout))
	a.consistently("the route stays for the other Rollout", func(ctx context.Context) error {
		return errors.Join(a.trafficRoutingPhase("Progressing")(ctx), a.hasCanaryWeight("20")(ctx))
	})
	other.promoteAll()
	a.eventually("the other Rollout is Healthy", other.isHealthy)
	a.checkNow(a.trafficRoutingPhase("Healthy"))
	a.checkNow(a.hasCanaryWeight(""))
	a.checkNow(a.trafficRoutingUsedBy())
}

// startSecondApp starts a second application in the same namespace with the same plan and another
// name than web.
func (a *app) startSecondApp(second string) *app {
	a.t.Helper()
	labels := map[string]string{"app": second}
	d := a.newDeployment()
	d.Name, d.Labels, d.Spec.Replicas = second, labels, new(int32(2))
	d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = labels, maps.Clone(labels)
	a.create(d)
	b := &app{t: a.t, namespace: a.namespace, rollout: second, plan: a.plan}
	r := b.newRollout()
	r.Spec.WorkloadRef.Name = second
	b.create(r)
	b.eventually("the other Rollout is Healthy", b.isHealthy)
	return b
}

// releaseNamed changes the version of the Deployment with the name of the Rollout.
func (a *app) releaseNamed(version string) {
	a.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.rollout}}
	body := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, image(version))
	if err := testEnv.client.Patch(a.t.Context(), d, client.RawPatch(types.StrategicMergePatchType, []byte(body))); err != nil {
		a.t.Fatal(err)
	}
}

// trafficRoutingUsedBy returns a check that the TrafficRouting routes for exactly these Rollouts.
func (a *app) trafficRoutingUsedBy(names ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getTrafficRouting(ctx)
		if err != nil {
			return err
		}
		want := []string{"rollouts.kruise.io/trafficrouting"}
		for _, n := range names {
			want = append(want, "progressing.rollouts.kruise.io/"+n)
		}
		got := slices.Clone(r.Finalizers)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			err = fmt.Errorf("finalizers %q, want %q", got, want)
		}
		return err
	}
}

var relayKind = schema.GroupVersionKind{Group: "e2e.example.com", Version: "v1", Kind: "Relay"}

const relayScript = `
	local share = obj.canaryWeight
	if share < 0 then error("a Relay needs a share", 0) end
	obj.data.spec.ways = { stable = obj.stableService, canary = obj.canaryService, share = share }
	obj.data.labels.relayed = "yes"
	return obj.data`

// TestTrafficRoutingByScript routes a custom kind with a script for a TrafficRouting. One Service
// serves both revisions.
func TestTrafficRoutingByScript(t *testing.T) {
	t.Parallel()
	installScripts(t, map[string]string{"lua.traffic.routing.Relay.e2e.example.com": relayScript})
	installCRDs(t, "testdata/relays.yaml")
	if err := testEnv.client.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-relays", Labels: map[string]string{"rollouts.kruise.io/aggregate-to-weir-controller": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{relayKind.Group}, Resources: []string{"relays"}, Verbs: []string{"get", "list", "watch", "patch"}}},
	}); err != nil {
		t.Fatal(err)
	}
	weight, grace := int32(30), int32(1)
	r := newTrafficRouting(v1alpha1.TrafficRoutingRef{
		Service: name, GracePeriodSeconds: &grace,
		CustomNetworkRefs: []v1alpha1.ObjectRef{{APIVersion: "e2e.example.com/v1", Kind: "Relay", Name: name}},
	}, v1alpha1.TrafficRoutingStrategy{Weight: &weight})
	a := start(t, planWithTrafficRouting(r))
	before := router(t, relayKind, `{"note":"mine","list":[],"empty":{}}`)
	a.create(before)
	a.create(r)
	a.eventually("the TrafficRouting is Healthy", a.trafficRoutingPhase("Healthy"))

	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkRelay(`{"empty":{},"list":[],"note":"mine","ways":{"canary":"web","share":30,"stable":"web"}}`, "yes")
	testEnv.admin.kubectl(a, "patch", "trafficrouting", front, "--type=merge", "-p", `{"spec":{"strategy":{"weight":60}}}`).mustSucceed()
	a.eventually("the edit is routed", func(ctx context.Context) error {
		spec, _ := a.readRouter(relayKind)
		if want := `{"empty":{},"list":[],"note":"mine","ways":{"canary":"web","share":60,"stable":"web"}}`; spec != want {
			return fmt.Errorf("%s, want %s", spec, want)
		}
		return nil
	})
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.released("v2"))
	a.checkNow(a.trafficRoutingPhase("Healthy"))
	a.checkRelay(`{"empty":{},"list":[],"note":"mine"}`, "")
	if _, annotations := a.readRouter(relayKind); len(annotations) > 0 {
		t.Errorf("annotations %v are left", annotations)
	}
}

// checkRelay checks the spec and a label of the Relay.
func (a *app) checkRelay(spec, label string) {
	a.t.Helper()
	got, _ := a.readRouter(relayKind)
	a.checkEqual("the spec", spec, got)
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(relayKind)
	if err := testEnv.client.Get(a.t.Context(), a.key(name), o); err != nil {
		a.t.Fatal(err)
	}
	a.checkEqual("the label", label, o.GetLabels()["relayed"])
}

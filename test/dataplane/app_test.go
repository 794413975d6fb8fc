// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic

package dataplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

const (
	name = "web"
	// size is how many pods an application has.
	size = 10
)

// app is an application with a Service, an HTTPRoute and a Rollout in a namespace of its own. All
// its objects are named web. The tag of its image is its version.
type app struct {
	t         *testing.T
	namespace string
}

// start creates an application of version v1 and waits until a release can begin. It creates no
// Rollout if the scenario has no strategy.
func start(t *testing.T, namespace string, s scenario) *app {
	t.Helper()
	a := &app{t: t, namespace: namespace}
	if err := testEnv.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	a.create(a.newDeployment(s.podsDrain))
	a.create(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: a.labels(),
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.Parse(podPort)}},
		},
	})
	a.create(gatewayObject("HTTPRoute", namespace, name, map[string]any{
		"parentRefs": []any{map[string]any{"name": gatewayName, "namespace": metav1.NamespaceDefault}},
		"hostnames":  []any{hostOf(namespace)},
		"rules":      []any{map[string]any{"backendRefs": []any{map[string]any{"name": name, "port": int64(80)}}}},
	}))
	a.eventually("all pods are ready", a.runs(stable))
	if s.strategy == nil {
		return a
	}
	a.create(&v1beta1.Rollout{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.RolloutSpec{
			WorkloadRef: v1beta1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			Strategy:    *s.strategy,
		},
	})
	a.eventually("the Rollout is Healthy", a.isHealthy)
	return a
}

func (a *app) labels() map[string]string { return map[string]string{"app": name} }

func (a *app) newDeployment(drains bool) *appsv1.Deployment {
	var annotations map[string]string
	if drains {
		annotations = map[string]string{drainsFor: "4s"}
	}
	replicas, surge, unavailable := int32(size), intstr.FromInt32(2), intstr.FromInt32(0)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: a.labels()},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: a.labels(), Annotations: annotations},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: image("v1")}}},
			},
		},
	}
}

func image(version string) string { return "example.com/web:" + version }

func (a *app) create(o client.Object) {
	a.t.Helper()
	o.SetNamespace(a.namespace)
	if err := testEnv.client.Create(a.t.Context(), o); err != nil {
		a.t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
	}
}

func (a *app) eventually(what string, ask func(context.Context) error) {
	a.t.Helper()
	if err := testEnv.eventually(a.t.Context(), "waiting until "+what, ask); err != nil {
		a.t.Fatal(err)
	}
}

// release changes the image of the Deployment, as a user's pipeline does.
func (a *app) release(version string) {
	a.t.Helper()
	body := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"image":%q}]}}}}`, name, image(version))
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name}}
	if err := testEnv.client.Patch(a.t.Context(), d, client.RawPatch(types.StrategicMergePatchType, []byte(body))); err != nil {
		a.t.Fatal(err)
	}
}

// post sends a verb.
func (a *app) post(verb, body string) {
	a.t.Helper()
	url := fmt.Sprintf("https://%s/apis/rollouts.kruise.io/v1beta1/namespaces/%s/rollouts/%s/%s",
		testEnv.cluster.Address("kube-apiserver"), a.namespace, name, verb)
	request, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		a.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := testEnv.http.Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	answer, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		a.t.Fatal(err)
	}
	if response.StatusCode != http.StatusCreated {
		a.t.Fatalf("%s: %s %s", verb, response.Status, answer)
	}
}

func (a *app) getRollout(ctx context.Context) (*v1beta1.Rollout, error) {
	r := &v1beta1.Rollout{}
	return r, testEnv.client.Get(ctx, client.ObjectKey{Namespace: a.namespace, Name: name}, r)
}

// statusSatisfies returns a check of the status of the Rollout.
func (a *app) statusSatisfies(want func(*v1beta1.RolloutStatus) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && !want(&r.Status) {
			err = fmt.Errorf("the Rollout is %s: %s", r.Status.Phase, r.Status.Message)
		}
		return err
	}
}

func (a *app) isHealthy(ctx context.Context) error {
	return a.statusSatisfies(func(s *v1beta1.RolloutStatus) bool { return s.Phase == v1beta1.PhaseHealthy })(ctx)
}

// waitsAtStep returns a check that a step waits for approval.
func (a *app) waitsAtStep(step int32) func(context.Context) error {
	return a.statusSatisfies(func(s *v1beta1.RolloutStatus) bool {
		switch {
		case s.Canary != nil:
			return s.Canary.CurrentStepIndex == step && s.Canary.State == v1beta1.StepPaused
		case s.BlueGreen != nil:
			return s.BlueGreen.CurrentStepIndex == step && s.BlueGreen.State == v1beta1.StepPaused
		}
		return false
	})
}

func (a *app) isAborted(ctx context.Context) error {
	return a.statusSatisfies(func(s *v1beta1.RolloutStatus) bool {
		for _, c := range s.Conditions {
			if c.Type == "Progressing" {
				return c.Reason == "Aborted"
			}
		}
		return false
	})(ctx)
}

// runs returns a check that all pods are Ready and of this version.
func (a *app) runs(version string) func(context.Context) error {
	return func(ctx context.Context) error {
		var list corev1.PodList
		if err := testEnv.client.List(ctx, &list, client.InNamespace(a.namespace)); err != nil {
			return err
		}
		up := 0
		for i := range list.Items {
			if pod := &list.Items[i]; ready(pod) && versionOf(&pod.Spec) == version {
				up++
			}
		}
		if up != size || len(list.Items) != size {
			return fmt.Errorf("%d of %d pods are ready and of %s, want %d", up, len(list.Items), version, size)
		}
		return nil
	}
}

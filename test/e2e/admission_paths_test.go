// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/test/cluster"
)

// All of Weir is gone, and nothing is released past it. What happens instead
// depends on what the cluster can do. This does not run beside other tests.
func TestAllDown(t *testing.T) {
	if testEnv.policies {
		templateHeldWhileDown(t)
	} else {
		templateRefusedWhileDown(t)
	}
}

// Before Kubernetes 1.36 the webhook is all there is: a new template of what may
// have a Rollout is refused, and everything else passes.
func templateRefusedWhileDown(t *testing.T) {
	a := start(t, planWithoutTraffic())
	killAll(t, cluster.WeirController, cluster.WeirAPIServer)
	refused := []string{"set", "image", "deployment/web", "web=" + image("v2")}
	testEnv.admin.kubectl(a, refused...).mustFail("workloads.weir.rollouts.kruise.io")
	testEnv.admin.kubectl(a, "scale", "deployment/web", "--replicas=7").mustSucceed()
	testEnv.admin.kubectl(a, "label", "deployment", "web", "team=a").mustSucceed()
	a.consistently("v1 runs", a.runs(versions{"v1": 7}))
	a.plan.replicas = 7

	startAll(t, cluster.WeirAPIServer, cluster.WeirController)
	testEnv.admin.kubectl(a, "label", "deployment", "web", "team-").mustSucceed()
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.awaitPods(versions{"v2": 7})
	a.before.deployment.Spec.Replicas = new(int32(7)) // written while nobody was there
	a.checkRestored(workloadTypeLabel)
}

// With the policies, a workload that a Rollout names is still held when its
// template changes, also by a kube-apiserver that was restarted meanwhile, and
// whatever no Rollout names is nobody's business. When Weir is back, the release
// goes on in steps.
func templateHeldWhileDown(t *testing.T) {
	a := start(t, planWithoutTraffic())
	a.create(deploymentWithoutRollout())
	a.eventually("the other Deployment is there", a.otherDeploymentRuns("v1"))
	a.guard.stop(t) // its watch ends with kube-apiserver
	a.guard = nil
	killAll(t, cluster.WeirController, cluster.WeirAPIServer)

	a.release("v2")
	a.checkNow(a.isHeldWithRecords)
	a.consistently("v1 runs", a.runs(versions{"v1": 7}))
	testEnv.admin.kubectl(a, "set", "image", "deployment/other", "web="+image("v2")).mustSucceed()
	a.eventually("the other Deployment rolls", a.otherDeploymentRuns("v2"))

	for range 2 { // the caches of policies and parameters are filled anew each time
		if err := errors.Join(testEnv.cluster.Kill(cluster.KubeAPIServer), testEnv.cluster.Start(cluster.KubeAPIServer)); err != nil {
			t.Fatal(err)
		}
		testEnv.admin.kubectl(a, "rollout", "resume", "deployment/web").mustSucceed()
		a.checkNow(a.isHeldWithRecords)
	}
	testEnv.admin.kubectl(a, "annotate", "deployment", "web", "rollouts.kruise.io/in-progressing-").mustSucceed()
	testEnv.admin.kubectl(a, "patch", "deployment", "web", `-p={"spec":{"paused":false,"strategy":{"rollingUpdate":{"maxSurge":3}}}}`).mustSucceed()
	a.checkNow(a.isHeldWithRecords)
	a.release("v3")
	a.checkNow(a.isHeldWithRecords)
	testEnv.admin.kubectl(a, "set", "image", "deployment/other", "web="+image("v3")).mustSucceed()
	a.eventually("the other Deployment rolls", a.otherDeploymentRuns("v3"))
	testEnv.admin.kubectl(a, "scale", "deployment/web", "--replicas=6").mustSucceed()
	a.consistently("v1 runs", a.runs(versions{"v1": 6, "v3": 1}))

	startAll(t, cluster.WeirAPIServer, cluster.WeirController)
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkNow(a.runs(versions{"v1": 4, "v3": 3}))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.eventually("all is released", a.runs(versions{"v3": 7}))
	a.before.deployment.Spec.Strategy.RollingUpdate.MaxSurge.IntVal = 3 // written while nobody was there
	a.checkRestored(workloadTypeLabel)
}

// What is stored before an update, and updates.
const (
	bare     = `{"metadata":{"annotations":null,"labels":{"rollouts.kruise.io/workload-type":"deployment"}},"spec":{"paused":null,"strategy":{"type":"RollingUpdate"}}}`
	held     = `{"metadata":{"annotations":{"rollouts.kruise.io/in-progressing":"{\"rolloutName\":\"web\"}"}},"spec":{"paused":true}}`
	underWay = `{"metadata":{"annotations":{"rollouts.kruise.io/in-progressing":"{\"rolloutName\":\"web\"}",
		"batchrelease.rollouts.kruise.io/control-info":"{}","rollouts.kruise.io/deployment-strategy":"{\"rollingStyle\":\"Partition\",\"rollingUpdate\":{\"maxUnavailable\":1,\"maxSurge\":2},\"partition\":\"20%\"}"}},
		"spec":{"paused":true,"strategy":{"type":"Recreate","rollingUpdate":null}}}`
	template = `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`
	resumed  = `{"spec":{"paused":false}}`
	unmarked = `{"metadata":{"annotations":null,"labels":null},"spec":{"paused":false,"strategy":{"type":"RollingUpdate"}}}`
)

// Each door alone does the same on a real kube-apiserver. What every kind of
// update comes to is in the tests of pkg/admission/workload.
func TestAdmissionPaths(t *testing.T) {
	a := start(t, planWithoutTraffic())
	a.create(deploymentWithoutRollout())
	killAll(t, cluster.WeirController)
	cases := map[string]struct {
		name, stored, update string
		want                 holdState
	}{
		"a new template":                 {name, bare, template, holdState{paused: true, held: true, labelled: true, strategy: "RollingUpdate"}},
		"a size":                         {name, bare, `{"spec":{"replicas":4}}`, holdState{labelled: true, strategy: "RollingUpdate"}},
		"without the label":              {name, bare, unmarked, holdState{labelled: true, strategy: "RollingUpdate"}},
		"a new template of nobody's":     {"other", bare, template, holdState{labelled: true, strategy: "RollingUpdate"}},
		"a held one resumed":             {name, held, resumed, holdState{paused: true, held: true, labelled: true, strategy: "RollingUpdate"}},
		"a held one with a new template": {name, held, template, holdState{paused: true, held: true, labelled: true, strategy: "RollingUpdate"}},
		"a driven one without marks":     {name, underWay, unmarked, holdState{paused: true, held: true, labelled: true, strategy: "Recreate"}},
	}
	for door := range admissionPaths() {
		t.Run(door, func(t *testing.T) {
			a.leaveOnlyAdmissionPath(t, door)
			for what, c := range cases {
				a.patchNamedDeployment(testEnv.controllerClient(t), c.name, bare)
				a.patchNamedDeployment(testEnv.controllerClient(t), c.name, c.stored)
				got := a.patchNamedDeployment(testEnv.client, c.name, c.update, client.DryRunAll)
				if diff := cmp.Diff(c.want, holdStateOf(got), cmp.AllowUnexported(holdState{})); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
			a.patchNamedDeployment(testEnv.controllerClient(t), name, bare)
			a.patchNamedDeployment(testEnv.controllerClient(t), "other", bare)
		})
	}
}

// holdState is what admission says of a Deployment.
type holdState struct {
	paused, held, labelled bool
	strategy               string
}

func holdStateOf(d *appsv1.Deployment) holdState {
	return holdState{
		paused: d.Spec.Paused, held: d.Annotations["rollouts.kruise.io/in-progressing"] == `{"rolloutName":"web"}`,
		labelled: d.Labels["rollouts.kruise.io/workload-type"] == "deployment", strategy: string(d.Spec.Strategy.Type),
	}
}

// patchNamedDeployment writes to a Deployment and returns what is stored, or would be.
func (a *app) patchNamedDeployment(as client.Client, name, patch string, opts ...client.PatchOption) *appsv1.Deployment {
	a.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name}}
	if err := as.Patch(a.t.Context(), d, client.RawPatch(types.MergePatchType, []byte(patch)), opts...); err != nil {
		a.t.Fatal(err)
	}
	return d
}

// controllerClient is a client with the name of weir-controller.
func (w *environment) controllerClient(t *testing.T) client.Client {
	t.Helper()
	config := w.cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:weir-system:weir-controller", Groups: []string{"system:masters"}}
	c, err := client.New(config, client.Options{Scheme: w.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// admissionPaths are those that the cluster has, and the objects that each consists of.
func admissionPaths() map[string][]client.Object {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	all := map[string][]client.Object{
		"webhook": {&admissionv1.MutatingWebhookConfiguration{ObjectMeta: named("weir-workloads")}},
	}
	if testEnv.policies {
		all["policies"] = []client.Object{
			&admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: named("weir-hold")},
			&admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: named("weir-keep")},
			&admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: named("weir-records")},
			&admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: named("weir-created")},
			&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named("weir-fit")},
		}
	}
	return all
}

// removeAdmissionPath takes a door away until it is opened, and until the end at the latest.
func removeAdmissionPath(t *testing.T, door string) (open func()) {
	t.Helper()
	var again []func()
	for _, o := range admissionPaths()[door] {
		if err := testEnv.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		if err := testEnv.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		o.SetResourceVersion("")
		again = append(again, sync.OnceFunc(func() {
			if err := testEnv.client.Create(context.Background(), o); err != nil {
				t.Error(err)
			}
		}))
	}
	open = func() {
		for _, create := range again {
			create()
		}
	}
	t.Cleanup(open)
	return open
}

// leaveOnlyAdmissionPath leaves one door open, and waits until kube-apiserver has seen that.
func (a *app) leaveOnlyAdmissionPath(t *testing.T, door string) {
	t.Helper()
	weir := testEnv.controllerClient(t)
	open := map[string]func(){}
	for name := range admissionPaths() {
		open[name] = removeAdmissionPath(t, name)
	}
	a.patchNamedDeployment(weir, name, bare)
	a.patchNamedDeployment(weir, "other", held)
	admits := func(want bool) func(context.Context) error {
		return func(context.Context) error {
			started := holdStateOf(a.patchNamedDeployment(testEnv.client, name, template, client.DryRunAll)).held
			kept := holdStateOf(a.patchNamedDeployment(testEnv.client, "other", resumed, client.DryRunAll)).paused
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "other"}}
			if err := testEnv.client.Status().Patch(t.Context(), d, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`)), client.DryRunAll); err != nil {
				return err
			}
			if recorded := len(d.Annotations) > 0; started != want || kept != want || recorded != want {
				return fmt.Errorf("a hold is started: %t, kept: %t, recorded: %t", started, kept, recorded)
			}
			return nil
		}
	}
	a.eventually("all doors are closed", admits(false))
	open[door]()
	a.eventually("the door is open", admits(true))
}

// deploymentWithoutRollout is a Deployment that no Rollout names, and that looks as if one did.
func deploymentWithoutRollout() *appsv1.Deployment {
	labels := map[string]string{"app": "other", "rollouts.kruise.io/workload-type": "deployment"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: image("v1")}}},
			},
		},
	}
}

// otherDeploymentRuns wants the other Deployment to have rolled to a version.
func (a *app) otherDeploymentRuns(version string) func(context.Context) error {
	return func(ctx context.Context) error {
		d := &appsv1.Deployment{}
		if err := testEnv.client.Get(ctx, a.key("other"), d); err != nil {
			return err
		}
		if s := d.Status; versionOf(&d.Spec.Template.Spec) != version || s.ObservedGeneration < d.Generation || s.UpdatedReplicas < 1 || s.ReadyReplicas < 1 || s.Replicas > 1 {
			return fmt.Errorf("it is %+v", s)
		}
		return nil
	}
}

// isHeldWithRecords wants the Deployment to be held.
func (a *app) isHeldWithRecords(ctx context.Context) error {
	d, err := a.getDeployment(ctx)
	if err == nil && (!d.Spec.Paused || !holdStateOf(d).held) {
		err = fmt.Errorf("it is %+v", holdStateOf(d))
	}
	return err
}

// killAll kills processes, and up starts them again.
func killAll(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := testEnv.cluster.Kill(n); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = testEnv.cluster.Start(n) }) // it may be running
	}
}

func startAll(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := testEnv.cluster.Start(n); err != nil {
			t.Fatal(err)
		}
	}
}

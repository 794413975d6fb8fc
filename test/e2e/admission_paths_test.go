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

// TestAllDown stops all processes of Weir. No version may be released without Weir. The behaviour
// depends on the version of Kubernetes. This test does not run in parallel with others.
func TestAllDown(t *testing.T) {
	if testEnv.policies {
		templateHeldWhileDown(t)
	} else {
		templateRefusedWhileDown(t)
	}
}

// templateRefusedWhileDown tests clusters before Kubernetes 1.36, which have the webhook only: a
// new template of a workload that can have a Rollout is refused, and everything else is admitted.
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
	a.before.deployment.Spec.Replicas = new(int32(7)) // written while Weir was down
	a.checkRestored(workloadTypeLabel)
}

// templateHeldWhileDown tests clusters with the policies: a workload that a Rollout references is
// held when its template changes, also after a restart of kube-apiserver, and other workloads are
// not affected. When Weir runs again, the release continues in steps.
func templateHeldWhileDown(t *testing.T) {
	// A kube-apiserver that restarts without Weir does not know Weir's API groups. The namespace
	// controller then deletes a namespace and leaves the Rollouts in it behind.
	testEnv.eventually(t, "the namespaces of earlier tests are gone", func(ctx context.Context) error {
		var list corev1.NamespaceList
		err := testEnv.client.List(ctx, &list)
		for i := range list.Items {
			if ns := &list.Items[i]; ns.DeletionTimestamp != nil {
				err = fmt.Errorf("namespace %s is being deleted", ns.Name)
			}
		}
		return err
	})
	a := start(t, planWithoutTraffic())
	a.create(deploymentWithoutRollout())
	a.eventually("the other Deployment runs", a.otherDeploymentRuns("v1"))
	a.guard.stop(t) // the watch of the guard ends with kube-apiserver
	a.guard = nil
	killAll(t, cluster.WeirController, cluster.WeirAPIServer)

	a.release("v2")
	a.checkNow(a.isHeldWithRecords)
	a.consistently("v1 runs", a.runs(versions{"v1": 7}))
	testEnv.admin.kubectl(a, "set", "image", "deployment/other", "web="+image("v2")).mustSucceed()
	a.eventually("the other Deployment rolls", a.otherDeploymentRuns("v2"))

	for range 2 { // each restart fills the caches of policies and parameters again
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
	a.eventually("the release is complete", a.runs(versions{"v3": 7}))
	a.before.deployment.Spec.Strategy.RollingUpdate.MaxSurge.IntVal = 3 // written while Weir was down
	a.checkRestored(workloadTypeLabel)
}

// Stored objects before an update, and updates.
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

// TestAdmissionPaths checks on a real kube-apiserver that the webhook alone and the policies alone
// have the same effect. The tests of pkg/admission/workload cover every kind of update.
func TestAdmissionPaths(t *testing.T) {
	a := start(t, planWithoutTraffic())
	a.create(deploymentWithoutRollout())
	killAll(t, cluster.WeirController)
	cases := map[string]struct {
		name, stored, update string
		want                 holdState
	}{
		"a new template":                   {name, bare, template, holdState{paused: true, held: true, labelled: true, strategy: "RollingUpdate"}},
		"a size":                           {name, bare, `{"spec":{"replicas":4}}`, holdState{labelled: true, strategy: "RollingUpdate"}},
		"without the label":                {name, bare, unmarked, holdState{labelled: true, strategy: "RollingUpdate"}},
		"a new template without a Rollout": {"other", bare, template, holdState{labelled: true, strategy: "RollingUpdate"}},
		"a held one resumed":               {name, held, resumed, holdState{paused: true, held: true, labelled: true, strategy: "RollingUpdate"}},
		"a held one with a new template":   {name, held, template, holdState{paused: true, held: true, labelled: true, strategy: "RollingUpdate"}},
		"an annotated one without records": {name, underWay, unmarked, holdState{paused: true, held: true, labelled: true, strategy: "Recreate"}},
	}
	for path := range admissionPaths() {
		t.Run(path, func(t *testing.T) {
			a.leaveOnlyAdmissionPath(t, path)
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

// holdState is the effect of admission on a Deployment.
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

// patchNamedDeployment patches a Deployment and returns what is stored, or would be stored by a dry
// run.
func (a *app) patchNamedDeployment(as client.Client, name, patch string, opts ...client.PatchOption) *appsv1.Deployment {
	a.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: name}}
	if err := as.Patch(a.t.Context(), d, client.RawPatch(types.MergePatchType, []byte(patch)), opts...); err != nil {
		a.t.Fatal(err)
	}
	return d
}

// controllerClient is a client that impersonates weir-controller.
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

// admissionPaths returns the ways in which this cluster can hold a workload, webhook and policies,
// with the objects of each.
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

// removeAdmissionPath deletes the objects of one admission path, and restores them when restore is
// called or the test ends.
func removeAdmissionPath(t *testing.T, path string) (restore func()) {
	t.Helper()
	var creates []func()
	for _, o := range admissionPaths()[path] {
		if err := testEnv.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		if err := testEnv.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		o.SetResourceVersion("")
		creates = append(creates, sync.OnceFunc(func() {
			if err := testEnv.client.Create(context.Background(), o); err != nil {
				t.Error(err)
			}
		}))
	}
	restore = func() {
		for _, create := range creates {
			create()
		}
	}
	t.Cleanup(restore)
	return restore
}

// leaveOnlyAdmissionPath removes all other admission paths, and waits until kube-apiserver has
// observed it.
func (a *app) leaveOnlyAdmissionPath(t *testing.T, path string) {
	t.Helper()
	weir := testEnv.controllerClient(t)
	restore := map[string]func(){}
	for name := range admissionPaths() {
		restore[name] = removeAdmissionPath(t, name)
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
	a.eventually("no admission path is left", admits(false))
	restore[path]()
	a.eventually("the admission path is in force", admits(true))
}

// deploymentWithoutRollout is a Deployment that no Rollout references, with the label of one that
// has a Rollout.
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

// otherDeploymentRuns returns a check that the other Deployment runs a version completely.
func (a *app) otherDeploymentRuns(version string) func(context.Context) error {
	return func(ctx context.Context) error {
		d := &appsv1.Deployment{}
		if err := testEnv.client.Get(ctx, a.key("other"), d); err != nil {
			return err
		}
		if s := d.Status; versionOf(&d.Spec.Template.Spec) != version || s.ObservedGeneration < d.Generation || s.UpdatedReplicas < 1 || s.ReadyReplicas < 1 || s.Replicas > 1 {
			return fmt.Errorf("the Deployment is %+v", s)
		}
		return nil
	}
}

// isHeldWithRecords returns an error unless the Deployment is held.
func (a *app) isHeldWithRecords(ctx context.Context) error {
	d, err := a.getDeployment(ctx)
	if err == nil && (!d.Spec.Paused || !holdStateOf(d).held) {
		err = fmt.Errorf("the Deployment is %+v", holdStateOf(d))
	}
	return err
}

// killAll kills processes, and startAll starts them again.
func killAll(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := testEnv.cluster.Kill(n); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = testEnv.cluster.Start(n) }) // the process may be running
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

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// failureApp is an application with a release in progress, and other objects of the cluster, during
// failures.
type failureApp struct {
	*app
	// idleApp is another application without a release.
	idleApp *app
	// steps is the number of paused steps before the last ones, and deleted are namespaces that a
	// test has deleted.
	steps   int32
	deleted []string
}

func newFailureApp(t *testing.T, steps int32) *failureApp {
	t.Helper()
	s := &failureApp{app: start(t, planWithManySteps(steps)), idleApp: start(t, planWithoutTraffic()), steps: steps}
	s.idleApp.create(deploymentWithoutRollout())
	s.release("v2")
	s.eventually("step 1 waits", s.waitsAtStep(1))
	return s
}

// runThroughFailure causes a failure, checks what works, ends the failure, and continues the
// release with the next step.
func (s *failureApp) runThroughFailure(t *testing.T, row failure, step int32) {
	whole := s.t
	s.t, s.idleApp.t = t, t
	defer func() { s.t, s.idleApp.t = whole, whole }()
	s.awaitStep(step)
	s.guard.atMost("v2", podsAt(step, s.steps))
	before := s.networkObjects()

	began := time.Now()
	if err := row.begin(); err != nil {
		t.Fatal(err)
	}
	over := false
	t.Cleanup(func() {
		if !over {
			_ = row.end() // the test has already failed
		}
	})
	if !row.kubeAPIServerDown {
		s.checkDuringFailure(row.expectations, step)
	}
	looked := time.Now()
	s.guard.atMost("v2", podsAt(step+1, s.steps))
	over = true
	if err := row.end(); err != nil {
		t.Fatal(err)
	}
	if !row.acceptsDecisions {
		s.eventually("the step still waits", s.waitsAtStep(step))
		s.checkEqual("the network", before, s.networkObjects())
		s.promote(step)
	}
	s.awaitStep(step + 1)
	t.Logf("the failure lasted %.1f s, and the next step paused %.1f s later", looked.Sub(began).Seconds(), time.Since(looked).Seconds())
}

// awaitStep waits until a step is paused with its pods and its traffic.
func (s *failureApp) awaitStep(step int32) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("step %d waits", step), s.waitsAtStep(step))
	s.checkNow(s.isAtStep(step))
}

// isAtStep returns a check of the changes of workload and network that belong to a step.
func (s *failureApp) isAtStep(step int32) func(context.Context) error {
	return func(ctx context.Context) error {
		pods := podsAt(step, s.steps)
		return errors.Join(s.isHeld(ctx), s.runs(versions{"v1": s.plan.replicas - pods, "v2": pods})(ctx), s.hasCanaryWeight(strconv.Itoa(int(step)))(ctx),
			s.serviceSelects(name, versions{"v1": s.plan.replicas - pods})(ctx), s.serviceSelects(name+"-canary", versions{"v2": pods})(ctx))
	}
}

// networkObjects returns the stored objects that route requests.
func (s *failureApp) networkObjects() map[string]string {
	s.t.Helper()
	stored := map[string]string{}
	for _, o := range []client.Object{&corev1.Service{}, &networkingv1.Ingress{}} {
		for _, n := range []string{name, name + "-canary"} {
			if err := testEnv.client.Get(s.t.Context(), s.key(n), o); err != nil {
				s.t.Fatal(err)
			}
			stored[fmt.Sprintf("%T %s", o, n)] = o.GetResourceVersion()
		}
	}
	return stored
}

// checkDuringFailure checks what works during a failure.
func (s *failureApp) checkDuringFailure(m expectations, step int32) {
	s.t.Helper()
	before := s.networkObjects()
	s.deleteNamespace(m.deletesNamespaces)
	s.checkKubectl(m)
	if testEnv.policies {
		s.checkHolds("the policies")
		defer s.removePolicies()()
	}
	s.checkWebhookAlone(m.webhookAnswers)
	s.checkNow(s.isAtStep(step))
	s.checkEqual("the network", before, s.networkObjects())
	s.checkDecision(m.acceptsDecisions, step)
}

// checkKubectl runs kubectl with an empty discovery cache on objects of other APIs.
func (s *failureApp) checkKubectl(m expectations) {
	s.t.Helper()
	cold := "--cache-dir=" + s.t.TempDir()
	testEnv.admin.kubectl(s.app, "get", cold, "deployments,replicasets,services,ingresses").mustSucceed("web-canary")
	testEnv.admin.kubectl(s.idleApp, "annotate", cold, "deployment/other", "when="+time.Now().Format("15-04-05.000"), "--overwrite").mustSucceed()
	testEnv.admin.kubectl(s.idleApp, "scale", cold, "deployment/web", "--replicas=3", "--dry-run=server").mustSucceed()
	if m.apiDiscovered {
		testEnv.admin.kubectl(s.app, "api-resources", cold, "--api-group=rollouts.kruise.io").mustSucceed("batchreleases", "trafficroutings")
		return
	}
	s.eventually("discovery fails for the groups of Weir only", func(context.Context) error { return discoveryIsPartial() })
}

// discoveryIsPartial checks that discovery reports the groups of Weir as failed, and no other group. Clients that list all
// kinds skip such groups. If discovery listed a group that cannot be read, each of them would fail.
func discoveryIsPartial() error {
	c, err := discovery.NewDiscoveryClientForConfig(testEnv.cluster.Config())
	if err != nil {
		return err
	}
	_, lists, err := c.ServerGroupsAndResources()
	failed, ok := discovery.GroupDiscoveryFailedErrorGroups(err)
	if !ok {
		return fmt.Errorf("discovery did not fail for single groups: %w", cmp.Or(err, errors.New("it succeeded")))
	}
	for version := range failed {
		if version.Group != "rollouts.kruise.io" && version.Group != "weir-rollouts.io" {
			return fmt.Errorf("discovery failed for %s", version)
		}
	}
	for _, list := range lists {
		if strings.Contains(list.GroupVersion, "rollouts") {
			return fmt.Errorf("discovery lists %s", list.GroupVersion)
		}
	}
	return nil
}

// checkHolds checks that a held workload stays held when a user changes it, and that a workload
// without a release is held when its template changes.
func (s *failureApp) checkHolds(by string) {
	s.t.Helper()
	testEnv.admin.kubectl(s.app, "rollout", "resume", "deployment/web").mustSucceed()
	s.checkNow(s.isHeldWithRecords)
	s.eventually("the workload in service would be held by "+by, s.idleApp.webhookHolds)
}

// removePolicies deletes the policies, so that only the webhook is left, as in older clusters.
func (s *failureApp) removePolicies() (back func()) {
	s.t.Helper()
	ignores := s.setFailurePolicy(admissionv1.Fail)
	restore := removeAdmissionPath(s.t, "policies")
	return func() {
		s.t.Helper()
		restore()
		ignores()
		s.eventually("the policies hold again", s.idleApp.webhookHolds)
	}
}

// checkWebhookAlone checks that the webhook holds updates, or that these updates are refused while
// the webhook does not answer.
func (s *failureApp) checkWebhookAlone(admits bool) {
	s.t.Helper()
	if admits {
		s.checkHolds("the webhook")
		return
	}
	s.eventually("updates are refused", func(ctx context.Context) error {
		return errors.Join(isWebhookRefusal(s.idleApp.webhookHolds(ctx)), isWebhookRefusal(s.tryResume(ctx)))
	})
	testEnv.admin.kubectl(s.app, "rollout", "resume", "deployment/web").mustFail("weir")
	s.checkNow(s.isHeldWithRecords)
	testEnv.admin.kubectl(s.idleApp, "scale", "deployment/web", "--replicas=3", "--dry-run=server").mustSucceed()
	testEnv.admin.kubectl(s.idleApp, "annotate", "deployment/web", "a=b", "--dry-run=server").mustSucceed()
}

// tryResume tries to unpause the held Deployment.
func (s *failureApp) tryResume(ctx context.Context) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	return testEnv.client.Patch(ctx, d, client.RawPatch(types.MergePatchType, []byte(resumed)), client.DryRunAll)
}

func isWebhookRefusal(err error) error {
	switch {
	case err == nil:
		return errors.New("the policies are still there")
	case !strings.Contains(err.Error(), "failed calling webhook"):
		return fmt.Errorf("not refused because of the webhook: %w", err)
	}
	return nil
}

// setFailurePolicy sets the failure policy of the webhook, and returns a function that restores it.
func (s *failureApp) setFailurePolicy(to admissionv1.FailurePolicyType) (back func()) {
	s.t.Helper()
	set := func(to admissionv1.FailurePolicyType) {
		hook := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "weir-workloads"}}
		patch := fmt.Appendf(nil, `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":%q}]`, to)
		if err := testEnv.client.Patch(context.Background(), hook, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			s.t.Error(err)
		}
	}
	set(to)
	s.t.Cleanup(func() { set(admissionv1.Ignore) })
	return func() { set(admissionv1.Ignore) }
}

// checkDecision sends a decision. It must be recorded, or the response must explain that it cannot
// be recorded. The response must never be that the Rollout does not exist.
func (s *failureApp) checkDecision(can bool, step int32) {
	s.t.Helper()
	if can {
		s.promote(step)
		return
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	err := testEnv.client.Get(ctx, s.key(name), &v1beta1.Rollout{})
	if err == nil || apierrors.IsNotFound(err) {
		s.t.Fatalf("reading a Rollout: %v", err)
	}
	ctx, cancel = context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	// A frozen server may still process the request when it continues, so this is a dry run.
	got, err := testEnv.admin.post(ctx, s.app, "promote?dryRun=All", expectStep(step))
	if err == nil && got.code < http.StatusInternalServerError {
		s.t.Fatalf("promote: %s", got)
	}
}

// deleteNamespace deletes a namespace. The deletion completes at once, or when the failure has
// ended.
func (s *failureApp) deleteNamespace(atOnce bool) {
	s.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "gone-"}}
	if err := testEnv.client.Create(s.t.Context(), ns); err != nil {
		s.t.Fatal(err)
	}
	if err := testEnv.client.Delete(s.t.Context(), ns); err != nil {
		s.t.Fatal(err)
	}
	s.deleted = append(s.deleted, ns.Name)
	if atOnce {
		s.eventually("the namespace is gone", s.namespacesGone)
	}
}

func (s *failureApp) namespacesGone(ctx context.Context) error {
	for _, n := range s.deleted {
		if err := testEnv.client.Get(ctx, client.ObjectKey{Name: n}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s still exists: %w", n, err)
		}
	}
	return nil
}

// checkRecovery checks that the release and all deletions complete.
func (s *failureApp) checkRecovery() {
	s.t.Helper()
	s.guard.atMost("v2", s.plan.replicas+s.plan.surge)
	s.promoteAll()
	s.eventually("the release is complete", s.released("v2"))
	var want []string
	for step := range s.steps {
		want = append(want, fmt.Sprintf("promote %d admin applied", step+1))
	}
	s.checkNow(s.hasDecisions(append(want, fmt.Sprintf("promote %d admin applied", s.steps+1))...))
	s.checkRestored(workloadTypeLabel)
	s.eventually("the namespaces are gone", s.namespacesGone)
	s.idleApp.checkNow(s.idleApp.isHealthy)
	s.idleApp.checkNow(s.idleApp.runs(versions{"v1": s.idleApp.plan.replicas + 1})) // and a workload without a Rollout
}

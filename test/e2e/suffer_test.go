// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// sufferer is an application in the middle of a release, and what else users of
// the cluster have, while something fails.
type sufferer struct {
	*app
	// rest is in service, and not released.
	rest *app
	// steps is how many wait before the last ones, and deleted are namespaces
	// that somebody deleted.
	steps   int32
	deleted []string
}

func newSufferer(t *testing.T, steps int32) *sufferer {
	t.Helper()
	s := &sufferer{app: start(t, inSteps(steps)), rest: start(t, plain()), steps: steps}
	s.rest.create(unnamed())
	s.release("v2")
	s.until("step 1 waits", s.waitsAt(1))
	return s
}

// suffer takes the release through a failure to the next step.
func (s *sufferer) suffer(t *testing.T, row failure, step int32) {
	whole := s.t
	s.t, s.rest.t = t, t
	defer func() { s.t, s.rest.t = whole, whole }()
	s.reaches(step)
	s.guard.atMost("v2", podsAt(step, s.steps))
	before := s.network()

	began := time.Now()
	if err := row.begin(); err != nil {
		t.Fatal(err)
	}
	over := false
	t.Cleanup(func() {
		if !over {
			_ = row.end() // the test has failed already
		}
	})
	if !row.unseen {
		s.look(row.meanwhile, step)
	}
	looked := time.Now()
	s.guard.atMost("v2", podsAt(step+1, s.steps))
	over = true
	if err := row.end(); err != nil {
		t.Fatal(err)
	}
	if !row.decides {
		s.until("the step still waits", s.waitsAt(step))
		s.same("the network", before, s.network())
		s.promote(step)
	}
	s.reaches(step + 1)
	t.Logf("it lasted %.1f s, and the next step waited %.1f s later", looked.Sub(began).Seconds(), time.Since(looked).Seconds())
}

// reaches wants a step to wait, with its pods and its traffic.
func (s *sufferer) reaches(step int32) {
	s.t.Helper()
	s.until(fmt.Sprintf("step %d waits", step), s.waitsAt(step))
	s.sees(s.stands(step))
}

// stands wants what a step has made of the workload and of the network.
func (s *sufferer) stands(step int32) func(context.Context) error {
	return func(ctx context.Context) error {
		pods := podsAt(step, s.steps)
		return errors.Join(s.held(ctx), s.runs(versions{"v1": s.plan.replicas - pods, "v2": pods})(ctx), s.weight(strconv.Itoa(int(step)))(ctx),
			s.serves(name, versions{"v1": s.plan.replicas - pods})(ctx), s.serves(name+"-canary", versions{"v2": pods})(ctx))
	}
}

// network is what routes requests, as it is stored.
func (s *sufferer) network() map[string]string {
	s.t.Helper()
	stored := map[string]string{}
	for _, o := range []client.Object{&corev1.Service{}, &networkingv1.Ingress{}} {
		for _, n := range []string{name, name + "-canary"} {
			if err := here.client.Get(s.t.Context(), s.key(n), o); err != nil {
				s.t.Fatal(err)
			}
			stored[fmt.Sprintf("%T %s", o, n)] = o.GetResourceVersion()
		}
	}
	return stored
}

// look judges what a failure leaves.
func (s *sufferer) look(m meanwhile, step int32) {
	s.t.Helper()
	before := s.network()
	s.deletes(m.deletes)
	s.kubectlWorks(m)
	if here.policies {
		s.holds("the policies")
		defer s.withoutPolicies()()
	}
	s.webhookAlone(m.admits)
	s.sees(s.stands(step))
	s.same("the network", before, s.network())
	s.decides(m.decides, step)
}

// kubectlWorks for everybody else, who asks what there is for the first time.
func (s *sufferer) kubectlWorks(m meanwhile) {
	s.t.Helper()
	cold := "--cache-dir=" + s.t.TempDir()
	here.admin.kubectl(s.app, "get", cold, "deployments,replicasets,services,ingresses").works("web-canary")
	here.admin.kubectl(s.rest, "annotate", cold, "deployment/other", "when="+time.Now().Format("15-04-05.000"), "--overwrite").works()
	here.admin.kubectl(s.rest, "scale", cold, "deployment/web", "--replicas=3", "--dry-run=server").works()
	ours := here.admin.kubectl(s.app, "api-resources", cold, "--api-group=rollouts.kruise.io")
	if m.listed {
		ours.works("batchreleases", "trafficroutings")
	}
}

// holds wants what is held to be held whatever somebody does, and a workload in
// service to be held when it is changed.
func (s *sufferer) holds(by string) {
	s.t.Helper()
	here.admin.kubectl(s.app, "rollout", "resume", "deployment/web").works()
	s.sees(s.paused)
	s.until("the workload in service would be held by "+by, s.rest.wouldHold)
}

// withoutPolicies leaves the webhook alone, as on clusters that do not serve them.
func (s *sufferer) withoutPolicies() (back func()) {
	s.t.Helper()
	ignores := s.failurePolicy(admissionv1.Fail)
	open := closeDoor(s.t, "policies")
	return func() {
		s.t.Helper()
		open()
		ignores()
		s.until("the policies hold again", s.rest.wouldHold)
	}
}

// webhookAlone holds, or what it would have to see is refused while it does not answer.
func (s *sufferer) webhookAlone(admits bool) {
	s.t.Helper()
	if admits {
		s.holds("the webhook")
		return
	}
	s.until("updates are refused", func(ctx context.Context) error {
		return errors.Join(refusedByWebhook(s.rest.wouldHold(ctx)), refusedByWebhook(s.wouldResume(ctx)))
	})
	here.admin.kubectl(s.app, "rollout", "resume", "deployment/web").fails("weir")
	s.sees(s.paused)
	here.admin.kubectl(s.rest, "scale", "deployment/web", "--replicas=3", "--dry-run=server").works()
	here.admin.kubectl(s.rest, "annotate", "deployment/web", "a=b", "--dry-run=server").works()
}

// wouldResume tries to let go of what is held.
func (s *sufferer) wouldResume(ctx context.Context) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	return here.client.Patch(ctx, d, client.RawPatch(types.MergePatchType, []byte(resumed)), client.DryRunAll)
}

func refusedByWebhook(err error) error {
	switch {
	case err == nil:
		return errors.New("the policies are still there")
	case !strings.Contains(err.Error(), "failed calling webhook"):
		return fmt.Errorf("not refused for want of the webhook: %w", err)
	}
	return nil
}

// failurePolicy sets that of the webhook, until it is set back.
func (s *sufferer) failurePolicy(to admissionv1.FailurePolicyType) (back func()) {
	s.t.Helper()
	set := func(to admissionv1.FailurePolicyType) {
		hook := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "weir-workloads"}}
		patch := fmt.Appendf(nil, `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":%q}]`, to)
		if err := here.client.Patch(context.Background(), hook, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			s.t.Error(err)
		}
	}
	set(to)
	s.t.Cleanup(func() { set(admissionv1.Ignore) })
	return func() { set(admissionv1.Ignore) }
}

// decides wants a decision to be recorded, or whoever asks to be told that it
// cannot be: never that there is no such Rollout.
func (s *sufferer) decides(can bool, step int32) {
	s.t.Helper()
	if can {
		s.promote(step)
		return
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	err := here.client.Get(ctx, s.key(name), &v1beta1.Rollout{})
	if err == nil || apierrors.IsNotFound(err) {
		s.t.Fatalf("reading a Rollout: %v", err)
	}
	ctx, cancel = context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	// A server that is frozen may still get it when it wakes, so it changes nothing.
	got, err := here.admin.post(ctx, s.app, "promote?dryRun=All", expectStep(step))
	if err == nil && got.code < http.StatusInternalServerError {
		s.t.Fatalf("promote: %s", got)
	}
}

// deletes deletes a namespace, which goes at once, or when the failure is over.
func (s *sufferer) deletes(atOnce bool) {
	s.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "gone-"}}
	if err := here.client.Create(s.t.Context(), ns); err != nil {
		s.t.Fatal(err)
	}
	if err := here.client.Delete(s.t.Context(), ns); err != nil {
		s.t.Fatal(err)
	}
	s.deleted = append(s.deleted, ns.Name)
	if atOnce {
		s.until("the namespace is gone", s.gone)
	}
}

func (s *sufferer) gone(ctx context.Context) error {
	for _, n := range s.deleted {
		if err := here.client.Get(ctx, client.ObjectKey{Name: n}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s is there: %w", n, err)
		}
	}
	return nil
}

// recovers wants everything to come to its end.
func (s *sufferer) recovers() {
	s.t.Helper()
	s.guard.atMost("v2", s.plan.replicas+s.plan.surge)
	s.promoteAll()
	s.until("the release is complete", s.released("v2"))
	var want []string
	for step := range s.steps {
		want = append(want, fmt.Sprintf("promote %d admin applied", step+1))
	}
	s.sees(s.onRecord(append(want, fmt.Sprintf("promote %d admin applied", s.steps+1))...))
	s.traceless(workloadType)
	s.until("the namespaces are gone", s.gone)
	s.rest.sees(s.rest.healthy)
	s.rest.sees(s.rest.runs(versions{"v1": s.rest.plan.replicas + 1})) // and one that no Rollout names
}

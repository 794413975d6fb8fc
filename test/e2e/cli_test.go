// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// kubectlWeir runs kubectl weir as this user, and checks the exit code and the words in its output.
func (u *user) kubectlWeir(a *app, code int, args []string, words ...string) string {
	a.t.Helper()
	out, got := u.kubectlWeirOutput(a.t.Context(), a, args...)
	if got != code {
		a.t.Fatalf("kubectl weir %s: exit %d, want %d:\n%s", strings.Join(args, " "), got, code, out)
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			a.t.Errorf("kubectl weir %s lacks %q:\n%s", strings.Join(args, " "), word, out)
		}
	}
	return out
}

func (u *user) kubectlWeirOutput(ctx context.Context, a *app, args ...string) (string, int) {
	var out bytes.Buffer
	code := u.kubectlWeirTo(ctx, a, &out, args...)
	return out.String(), code
}

func (u *user) kubectlWeirTo(ctx context.Context, a *app, out io.Writer, args ...string) int {
	cmd := exec.CommandContext(ctx, filepath.Join(testEnv.cluster.WeirBin(), "kubectl-weir"), append([]string{"-n", a.namespace}, args...)...)
	cmd.Env = slices.Concat(os.Environ(), []string{"KUBECONFIG=" + u.kubeconfig, "LC_ALL=C.UTF-8"})
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode()
		}
		fmt.Fprintln(out, err)
		return -1
	}
	return 0
}

// firstWriteSignal is a writer that reports when something is written for the first time.
type firstWriteSignal struct {
	text  bytes.Buffer
	once  sync.Once
	first chan struct{}
}

func (s *firstWriteSignal) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.first) })
	return s.text.Write(p)
}

// kubectlWeirWhile starts a kubectl weir command that waits, and calls do after the first output of
// the command.
func (u *user) kubectlWeirWhile(a *app, code int, args []string, do func()) {
	a.t.Helper()
	out := &firstWriteSignal{first: make(chan struct{})}
	ended := make(chan int, 1)
	go func() { ended <- u.kubectlWeirTo(a.t.Context(), a, out, args...) }()
	select {
	case <-out.first:
	case <-a.t.Context().Done():
	}
	do()
	if got := <-ended; got != code {
		a.t.Fatalf("kubectl weir %s: exit %d, want %d:\n%s", strings.Join(args, " "), got, code, &out.text)
	}
}

func words(line string) []string { return strings.Fields(line) }

// TestKubectlWeir releases with kubectl weir. Its output must agree with the status, its decisions
// must be recorded, and its waits must end with the documented exit codes.
func TestKubectlWeir(t *testing.T) {
	t.Parallel()
	a := start(t, defaultPlan())
	manager, viewer := a.userWithClusterRole("maria", "weir-release-manager"), a.userWithClusterRole("victor", "view")
	a.userWithClusterRole("maria", "view")
	for _, u := range []*user{manager, viewer} {
		a.eventually("the paused step is reported", func(ctx context.Context) error {
			if out, code := u.kubectlWeirOutput(ctx, a, "why", "web"); code != 0 {
				return errors.New(out)
			}
			return nil
		})
	}
	manager.kubectlWeir(a, 0, words("why web"), "No release in progress")
	manager.kubectlWeir(a, 0, words("wait web --for=healthy --timeout=1m"), "healthy")
	manager.kubectlWeir(a, 124, words("wait web --for=waiting --timeout=0"), "not waiting")
	testEnv.admin.kubectlWeir(a, 0, []string{"set", "image", "deployment/web", name + "=" + image("v2"), "--yes"}, "deployment/web: image set", "STEP")
	manager.kubectlWeir(a, 0, words("wait web --for=paused,healthy --timeout=5m"), "paused: ")
	a.checkNow(a.waitsAtStep(1))
	manager.kubectlWeir(a, 3, words("wait deployment/web --no-people"), "approval")
	manager.kubectlWeir(a, 0, words("why web"), "step 1 of 3", "kubectl weir promote web", "retry")
	viewer.kubectlWeir(a, 0, words("why web"), "you need permission to create rollouts/promote")
	manager.kubectlWeir(a, 0, words("plan web"), "STEP", "20%")
	manager.kubectlWeir(a, 0, words("get web"), "step 1 of 3", "deployment/web", "replicaset/web-", "ingress/web")
	manager.kubectlWeir(a, 0, words("get web -o json"), `"kind": "RolloutTree"`)
	manager.kubectlWeir(a, 0, words("list --mine"), "web", "approval")
	if out := viewer.kubectlWeir(a, 0, words("list --mine")); strings.Contains(out, "web ") {
		t.Errorf("a viewer has no approval to give:\n%s", out)
	}
	viewer.kubectlWeir(a, 1, words("promote web"), "forbidden: you need permission to create rollouts/promote")
	manager.kubectlWeir(a, 0, words("promote web --dry-run=server"), "server dry run")
	a.checkNow(a.hasDecisions())
	manager.kubectlWeir(a, 1, words("retry web"), "retry is not possible now")
	manager.kubectlWeir(a, 1, words("jump web 9"), "1 to 3")
	manager.kubectlWeir(a, 1, words("promote api"), "not found")
	manager.kubectlWeirWhile(a, 0, words("wait web --for=step=2 --timeout=5m"), func() {
		manager.kubectlWeir(a, 0, []string{"approve", "web", "--reason", "error rate is fine"}, "Step 2 starts", "promote accepted")
		a.eventually("step 2 waits", a.waitsAtStep(2))
	})
	manager.kubectlWeir(a, 0, words("promote web --full"), "promote accepted")
	manager.kubectlWeir(a, 0, words("wait web --timeout=5m"), "healthy")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.checkNow(a.hasDecisions("promote 1 maria applied", "promote 2 maria applied"))
	manager.kubectlWeir(a, 0, words("history web"), "succeeded", "maria promote: error rate is fine (step 1)")
	manager.kubectlWeir(a, 0, words("diff web"), "image")
	a.checkRefusals(manager)
	a.checkWaitOutcomes(manager)
}

// checkRefusals passes wrong inputs. Each must be answered with a single line that explains how to
// correct it.
func (a *app) checkRefusals(u *user) {
	a.t.Helper()
	stranger := testEnv.user(a.t, "sam")
	for _, c := range []struct {
		user *user
		args string
		want string
	}{
		{testEnv.admin, "set image web nope=web:v9", "has no container nope; it has"},
		{testEnv.admin, "undo web --to 99", "there is no release 99"},
		{u, "diff web 99", "there is no release 99"},
		{u, "get nope -w", `"nope" not found`},
		{u, "wait nope", `"nope" not found`},
		{u, "promote -l app=nope", "no Rollout in namespace"},
		{u, "why deployment/nope", "controls deployment/nope"},
		{testEnv.admin, "init nope/web", `doesn't have a resource type "nope"`},
		{testEnv.admin, "init deployment/nope", `"nope" not found`},
		{stranger, "list", `cannot list resource "rollouts"`},
		{stranger, "get web -w", `cannot get resource "rollouts/tree"`},
		{stranger, "set image web app=web:v9", `cannot get resource "rollouts"`},
	} {
		if out := c.user.kubectlWeir(a, 1, words(c.args), "error: ", c.want); strings.Count(out, "\n") != 1 {
			a.t.Errorf("kubectl weir %s has more than a line:\n%s", c.args, out)
		}
	}
	if out := testEnv.admin.kubectlWeir(a, 0, words("init deployment/web"), "kind: Rollout", "service: web"); strings.Contains(out, "Could not read") {
		a.t.Errorf("kinds that the cluster does not serve should not be reported:\n%s", out)
	}
}

// checkWaitOutcomes ends releases in each way that a wait reports.
func (a *app) checkWaitOutcomes(u *user) {
	a.t.Helper()
	a.release("v3")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	u.kubectlWeirWhile(a, 4, words("wait web --for=healthy --timeout=5m"), func() {
		u.kubectlWeir(a, 0, words("abort web --reason slow"), "abort accepted")
		a.eventually("the release is aborted", a.isAborted)
	})
	u.kubectlWeir(a, 0, words("wait web --for=aborted --timeout=5m"), "aborted")
	u.kubectlWeir(a, 0, words("do web rollback"), "rollback accepted")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	testEnv.admin.kubectlWeir(a, 0, words("undo web --to 2 --yes --wait --timeout=5m"), "template of release 2 set", "waiting: ")
	u.kubectlWeirWhile(a, 4, words("wait web --for=healthy --timeout=5m"), func() {
		a.release("v4")
		a.eventually("another release takes over", func(ctx context.Context) error {
			r, err := a.getRollout(ctx)
			if err == nil && (len(r.Status.Releases) == 0 || r.Status.Releases[len(r.Status.Releases)-1].Number < 4) {
				err = fmt.Errorf("the release is %v", r.Status.Releases)
			}
			return err
		})
	})
}

// TestKubectlWeirBeforeFirst checks that rollback after the first release restores the version that served
// before Weir, and that the decisions of the namespace can be listed.
func TestKubectlWeirBeforeFirst(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	testEnv.admin.kubectlWeir(a, 0, []string{"promote", "web", "--full", "--reason", "hotfix"}, "promote accepted")
	testEnv.admin.kubectlWeir(a, 0, words("wait web --timeout=5m"), "healthy")
	a.eventually("the Rollout is Healthy", a.isHealthy)
	testEnv.admin.kubectlWeir(a, 1, words("rollback web"), "kubectl weir undo web")
	testEnv.admin.kubectlWeir(a, 0, words("rollback web --yes"), "template from before release 1 set")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	testEnv.admin.kubectlWeir(a, 0, words("list"), "web", "→ v1", "1/3")
	testEnv.admin.kubectlWeir(a, 0, words("history -o csv"), "time_utc,namespace,rollout", ",web,1,", "hotfix")
}

// TestKubectlWeirStalled checks that a missed deadline ends a wait with exit code 5 and that the
// plan reports an error, and that a user with the promote permission only can use promote.
func TestKubectlWeirStalled(t *testing.T) {
	t.Parallel()
	a := start(t, withShortDeadline(planWithoutTraffic()))
	q := a.createPodQuota(6)
	a.release("v2")
	testEnv.admin.kubectlWeir(a, 5, words("wait web --timeout=5m"))
	testEnv.admin.kubectlWeir(a, 0, words("why web"), "stalled", "exceeded quota: small", "raise the quota")
	testEnv.admin.kubectlWeir(a, 3, words("plan web"), "ERROR", "quota")
	if err := testEnv.client.Delete(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	a.eventually("step 1 waits", a.waitsAtStep(1))
	testEnv.admin.kubectlWeir(a, 3, words("wait web --no-people --timeout=5m"))
	promoter := a.userWithRules("bob", rbacv1.PolicyRule{APIGroups: []string{"rollouts.kruise.io"}, Resources: []string{"rollouts/promote"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{"rollouts.kruise.io"}, Resources: []string{"rollouts"}, Verbs: []string{"get"}})
	promoter.kubectlWeir(a, 0, words("promote web"), "Could not preview the result", "promote accepted")
	a.eventually("step 2 waits", a.waitsAtStep(2))
}

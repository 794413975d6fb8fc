// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && clients

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
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// These tests run real clients of other projects, which hack/clients.sh builds.

// externalClientFile is the path of a file that hack/clients.sh has created.
func externalClientFile(path ...string) string {
	return filepath.Join(append([]string{testEnv.cluster.Bin(), "..", "clients"}, path...)...)
}

// runExternalClient runs a client as this user.
func (u *user) runExternalClient(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), externalClientFile("clients"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+u.kubeconfig)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("running a client: %v", err)
	}
	return result{t: t, line: "clients " + strings.Join(args, " "), failed: err != nil, out: string(out)}
}

// checkVerdicts checks the health that Argo CD and kstatus compute for the Rollout in both API
// versions.
func (a *app) checkVerdicts(stage, argo, kstatus string) {
	a.t.Helper()
	for _, version := range []schema.GroupVersion{newVersion, oldVersion} {
		body := string(testEnv.admin.send(a.t, request{method: "GET", path: a.rolloutPath(version, a.rollout)}).mustAnswer(200).body)
		a.checkVerdictsOf(stage+" in "+version.Version, body, argo, kstatus)
	}
}

func (a *app) checkVerdictsOf(stage, body, argo, kstatus string) {
	a.t.Helper()
	for want, args := range map[string][]string{argo: {"argo", externalClientFile("argo", "health.lua")}, kstatus: {"kstatus"}} {
		if got := testEnv.admin.runExternalClient(a.t, body, args...).mustSucceed(); !strings.HasPrefix(got, want+": ") {
			a.t.Errorf("%s: the verdict of %s is %q, want %s: %s", stage, args[0], got, want, body)
		}
	}
}

// TestExternalArgoCDTestdata checks that Argo CD's health script gives the expected verdicts for
// Argo CD's own test data, so the script runs here as it does there.
func TestExternalArgoCDTestdata(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(externalClientFile("argo", "health_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var cases struct {
		Tests []struct {
			HealthStatus struct{ Status, Message string }
			InputPath    string
		}
	}
	if err := yaml.Unmarshal(data, &cases); err != nil || len(cases.Tests) == 0 {
		t.Fatalf("%d cases: %v", len(cases.Tests), err)
	}
	for _, c := range cases.Tests {
		input, err := os.ReadFile(externalClientFile("argo", c.InputPath))
		if err != nil {
			t.Fatal(err)
		}
		object, err := yaml.YAMLToJSON(input)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.TrimSpace(testEnv.admin.runExternalClient(t, string(object), "argo", externalClientFile("argo", "health.lua")).mustSucceed())
		if want := c.HealthStatus.Status + ": " + c.HealthStatus.Message; got != want {
			t.Errorf("%s: %q, want %q", c.InputPath, got, want)
		}
	}
}

// TestExternalHealthVerdicts checks the verdicts of Argo CD and kstatus at every stage of a
// Rollout.
func TestExternalHealthVerdicts(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	b := &app{plan: planWithoutTraffic(), rollout: "new"}
	fresh := b.newRollout()
	fresh.Spec.WorkloadRef.Name = "other"
	created := testEnv.admin.send(t, request{method: "POST", path: a.listPath(newVersion) + "?dryRun=All", body: fresh}).mustAnswer(201)
	a.checkVerdictsOf("just created", string(created.body), "Progressing", "InProgress")
	a.checkVerdicts("at rest", "Healthy", "Current")

	a.release("failed")
	a.eventually("the step cannot continue", a.messageContains("ImagePull"))
	a.checkVerdicts("upgrading", "Progressing", "InProgress")
	a.post(testEnv.admin, "pause", "", 201)
	a.eventually("the release is paused", a.hasProgressingReason("Paused"))
	a.checkVerdicts("paused while upgrading", "Progressing", "InProgress")
	a.post(testEnv.admin, "resume", "", 201)
	a.abort()
	a.checkVerdicts("aborted", "Suspended", "Failed")

	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.checkVerdicts("waiting", "Suspended", "InProgress")
	a.patchRollout(`{"spec":{"strategy":{"paused":true}}}`)
	a.eventually("the release is paused", a.hasProgressingReason("Paused"))
	a.checkVerdicts("paused while waiting", "Suspended", "InProgress")
	a.patchRollout(`{"spec":{"strategy":{"paused":false}}}`)
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.promoteAll()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.checkVerdicts("completed", "Healthy", "Current")

	a.patchRollout(`{"spec":{"disabled":true}}`)
	a.eventually("the Rollout is disabled", a.isDisabled)
	// The script has no verdict for this state, also not with OpenKruise.
	a.checkVerdicts("disabled", "Progressing", "Current")
	testEnv.admin.kubectl(a, "patch", "rollout", "web", "--type=json", `-p=[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/wait"}]`).mustSucceed()
	testEnv.admin.kubectl(a, "delete", "rollout", "web", "--wait=false").mustSucceed()
	a.eventually("the Rollout is being deleted", func(ctx context.Context) error {
		r, err := a.getRollout(ctx)
		if err == nil && r.Status.Phase != "Terminating" {
			err = errors.New(describe(r))
		}
		return err
	})
	a.checkVerdicts("being deleted", "Progressing", "Terminating")
	testEnv.admin.kubectl(a, "patch", "rollout", "web", "--type=merge", `-p={"metadata":{"finalizers":null}}`).mustSucceed()
}

// TestExternalKubectlKruise releases with the requests of kubectl-kruise, sent through the client
// library that it uses.
func TestExternalKubectlKruise(t *testing.T) {
	t.Parallel()
	a := start(t, planWithoutTraffic())
	alice := a.userWithClusterRole("alice", "weir-release-manager")
	call := func(u *user, args ...string) result {
		return u.runExternalClient(t, "", append([]string{args[0], a.namespace, "web"}, args[1:]...)...)
	}
	call(alice, "approve").mustFail("not StepPaused")
	call(testEnv.admin, "describe").mustSucceed("phase Healthy, observed true", "canary step 3 of 3")
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	follower := make(chan result)
	go func() { follower <- call(testEnv.admin, "follow") }()
	call(testEnv.admin, "describe").mustSucceed("phase Progressing, observed true, step 1 StepPaused, Rollout is in step(1/3), and you need manually confirm",
		"canary step 1 of 3, next 2", "pod Running", "image "+image("v2"))
	call(testEnv.admin, "pause").mustSucceed(`{"spec":{"strategy":{"paused":true}}}`)
	a.eventually("the release is paused", a.hasProgressingReason("Paused"))
	call(testEnv.admin, "pause").mustFail("already")
	call(testEnv.admin, "resume").mustSucceed()
	a.eventually("the release continues", a.hasProgressingReason("InRolling"))
	call(testEnv.user(t, "nobody"), "approve").mustFail("forbidden")
	call(alice, "approve").mustSucceed(`{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	// `rollout rollback --step` goes back a step and deletes no pods.
	call(alice, "rollback", "1").mustSucceed(`{"status":{"canaryStatus":{"nextStepIndex":1}}}`)
	a.eventually("step 1 waits", a.waitsAtStep(1))
	a.eventually("the pods of the step run", a.runs(versions{"v1": 3, "v2": 3}))
	call(alice, "approve").mustSucceed()
	a.eventually("step 2 waits", a.waitsAtStep(2))
	call(alice, "approve").mustSucceed()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	(<-follower).mustSucceed("step 1 StepPaused", "step 2 StepPaused", "phase Healthy")
	a.checkNow(a.hasDecisions("promote 1 alice applied", "jump 1 alice applied", "promote 1 alice applied", "promote 2 alice applied"))
	a.eventually("the pods of the step run", a.runs(versions{"v2": 6}))
}

// TestExternalKubeVela releases with the requests of KubeVela and its structs, while informers of
// both API versions watch.
func TestExternalKubeVela(t *testing.T) {
	t.Parallel()
	a := start(t, planWithNewFields())
	older, newer := a.startInformer("v1alpha1"), a.startInformer("v1beta1")
	call := func(verb string) result { return testEnv.admin.runExternalClient(t, "", verb, a.namespace, "web") }
	call("vela-approve").mustFail("nothing waits")
	a.release("v2")
	a.eventually("step 1 waits", a.waitsAtStep(1))
	before := a.mustGetRollout("web").Spec
	call("vela-suspend").mustSucceed()
	a.eventually("the release is paused", a.hasProgressingReason("Paused"))
	call("vela-resume").mustSucceed()
	a.eventually("the release continues", a.hasProgressingReason("InRolling"))
	a.checkEqual("the spec", before, a.mustGetRollout("web").Spec)
	call("vela-approve").mustSucceed()
	a.eventually("step 2 waits", a.waitsAtStep(2))
	call("vela-approve").mustSucceed()
	a.eventually("the Rollout is Healthy", a.isHealthy)
	a.checkNow(a.hasDecisions("promote 1 admin applied", "promote 2 admin applied"))
	testEnv.admin.kubectl(a, "delete", "rollout", "web").mustSucceed()
	for _, i := range []*informer{older, newer} {
		a.eventually(i.version+" has received all events", i.hasLines("added web Healthy 3 Completed", "updated web Progressing 1 StepPaused",
			"updated web Progressing 2 StepPaused", "updated web Healthy 3 Completed", "deleted web"))
	}
}

// informer is a client with an informer, whose events it prints.
type informer struct {
	version string
	mu      sync.Mutex
	out     bytes.Buffer
}

// Write implements io.Writer.
func (i *informer) Write(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.out.Write(p)
}

func (i *informer) hasLines(lines ...string) func(context.Context) error {
	return func(context.Context) error {
		i.mu.Lock()
		defer i.mu.Unlock()
		seen := i.out.String()
		for _, line := range lines {
			at := strings.Index(seen, line)
			if at < 0 {
				return fmt.Errorf("%q is missing, or out of order: %s", line, i.out.String())
			}
			seen = seen[at:]
		}
		return nil
	}
}

// startInformer starts an informer, and waits until it has synced.
func (a *app) startInformer(version string) *informer {
	a.t.Helper()
	i := &informer{version: version}
	cmd := exec.CommandContext(a.t.Context(), externalClientFile("clients"), "inform", a.namespace, version)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+testEnv.admin.kubeconfig)
	cmd.Stdout, cmd.Stderr = i, i
	stdin, err := cmd.StdinPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { a.stopInformer(cmd, stdin) })
	a.eventually("the informer of "+version+" has synced", i.hasLines("synced"))
	return i
}

func (a *app) stopInformer(cmd *exec.Cmd, stdin io.Closer) {
	// The client was killed if the test timed out.
	if err := errors.Join(stdin.Close(), cmd.Wait()); err != nil && a.t.Context().Err() == nil {
		a.t.Error(err)
	}
}

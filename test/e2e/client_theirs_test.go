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

// Clients that others wrote, as hack/clients.sh has built them.

// theirs is a file that it left.
func theirs(path ...string) string {
	return filepath.Join(append([]string{here.cluster.Bin(), "..", "clients"}, path...)...)
}

// run calls a client as a user.
func (u *user) run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), theirs("clients"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+u.kubeconfig)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("running a client: %v", err)
	}
	return result{t: t, line: "clients " + strings.Join(args, " "), failed: err != nil, out: string(out)}
}

// judged wants the verdicts of Argo CD and of kstatus about the Rollout, which
// must not depend on the version that it is read in.
func (a *app) judged(stage, argo, kstatus string) {
	a.t.Helper()
	for _, version := range []schema.GroupVersion{newVersion, oldVersion} {
		body := string(here.admin.send(a.t, request{method: "GET", path: a.one(version, a.rollout)}).must(200).body)
		a.judgedAs(stage+" in "+version.Version, body, argo, kstatus)
	}
}

func (a *app) judgedAs(stage, body, argo, kstatus string) {
	a.t.Helper()
	for want, args := range map[string][]string{argo: {"argo", theirs("argo", "health.lua")}, kstatus: {"kstatus"}} {
		if got := here.admin.run(a.t, body, args...).works(); !strings.HasPrefix(got, want+": ") {
			a.t.Errorf("%s: %s says %q, want %s: %s", stage, args[0], got, want, body)
		}
	}
}

// Argo CD's own test data get the verdicts that it wants; so the script runs as
// it does there.
func TestTheirArgoItself(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(theirs("argo", "health_test.yaml"))
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
		input, err := os.ReadFile(theirs("argo", c.InputPath))
		if err != nil {
			t.Fatal(err)
		}
		object, err := yaml.YAMLToJSON(input)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.TrimSpace(here.admin.run(t, string(object), "argo", theirs("argo", "health.lua")).works())
		if want := c.HealthStatus.Status + ": " + c.HealthStatus.Message; got != want {
			t.Errorf("%s: %q, want %q", c.InputPath, got, want)
		}
	}
}

// What Argo CD and kstatus say at every stage of a Rollout.
func TestTheirVerdicts(t *testing.T) {
	t.Parallel()
	a := start(t, plain())
	b := &app{plan: plain(), rollout: "new"}
	fresh := b.newRollout()
	fresh.Spec.WorkloadRef.Name = "other"
	created := here.admin.send(t, request{method: "POST", path: a.list(newVersion) + "?dryRun=All", body: fresh}).must(201)
	a.judgedAs("just created", string(created.body), "Progressing", "InProgress")
	a.judged("at rest", "Healthy", "Current")

	a.release("failed")
	a.until("the step cannot go on", a.says("ImagePull"))
	a.judged("upgrading", "Progressing", "InProgress")
	a.post(here.admin, "pause", "", 201)
	a.until("it is paused", a.doing("Paused"))
	a.judged("paused while upgrading", "Progressing", "InProgress")
	a.post(here.admin, "resume", "", 201)
	a.abort()
	a.judged("aborted", "Suspended", "Failed")

	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	a.judged("waiting", "Suspended", "InProgress")
	a.edit(`{"spec":{"strategy":{"paused":true}}}`)
	a.until("it is paused", a.doing("Paused"))
	a.judged("paused while waiting", "Suspended", "InProgress")
	a.edit(`{"spec":{"strategy":{"paused":false}}}`)
	a.until("step 1 waits", a.waitsAt(1))
	a.promoteAll()
	a.until("the Rollout is Healthy", a.healthy)
	a.judged("completed", "Healthy", "Current")

	a.edit(`{"spec":{"disabled":true}}`)
	a.until("it is disabled", a.disabled)
	// The script has no verdict of its own for this, with OpenKruise neither.
	a.judged("disabled", "Progressing", "Current")
	here.admin.kubectl(a, "patch", "rollout", "web", "--type=json", `-p=[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/wait"}]`).works()
	here.admin.kubectl(a, "delete", "rollout", "web", "--wait=false").works()
	a.until("it ends", func(ctx context.Context) error {
		r, err := a.stored(ctx)
		if err == nil && r.Status.Phase != "Terminating" {
			err = errors.New(describe(r))
		}
		return err
	})
	a.judged("being deleted", "Progressing", "Terminating")
	here.admin.kubectl(a, "patch", "rollout", "web", "--type=merge", `-p={"metadata":{"finalizers":null}}`).works()
}

// A release by what kubectl-kruise sends, through the client that it uses.
func TestTheirKruise(t *testing.T) {
	t.Parallel()
	a := start(t, plain())
	alice := a.may("alice", "weir-release-manager")
	call := func(u *user, args ...string) result {
		return u.run(t, "", append([]string{args[0], a.namespace, "web"}, args[1:]...)...)
	}
	call(alice, "approve").fails("not StepPaused")
	call(here.admin, "describe").works("phase Healthy, observed true", "canary step 3 of 3")
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	follower := make(chan result)
	go func() { follower <- call(here.admin, "follow") }()
	call(here.admin, "describe").works("phase Progressing, observed true, step 1 StepPaused, Rollout is in step(1/3), and you need manually confirm",
		"canary step 1 of 3, next 2", "pod Running", "image "+image("v2"))
	call(here.admin, "pause").works(`{"spec":{"strategy":{"paused":true}}}`)
	a.until("it is paused", a.doing("Paused"))
	call(here.admin, "pause").fails("already")
	call(here.admin, "resume").works()
	a.until("it goes on", a.doing("InRolling"))
	call(here.user(t, "nobody"), "approve").fails("forbidden")
	call(alice, "approve").works(`{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`)
	a.until("step 2 waits", a.waitsAt(2))
	// `rollout rollback --step` goes back a step, which takes no pods away.
	call(alice, "rollback", "1").works(`{"status":{"canaryStatus":{"nextStepIndex":1}}}`)
	a.until("step 1 waits", a.waitsAt(1))
	a.until("its pods are there", a.runs(versions{"v1": 3, "v2": 3}))
	call(alice, "approve").works()
	a.until("step 2 waits", a.waitsAt(2))
	call(alice, "approve").works()
	a.until("the Rollout is Healthy", a.healthy)
	(<-follower).works("step 1 StepPaused", "step 2 StepPaused", "phase Healthy")
	a.sees(a.onRecord("promote 1 alice applied", "jump 1 alice applied", "promote 1 alice applied", "promote 2 alice applied"))
	a.until("its pods are there", a.runs(versions{"v2": 6}))
}

// A release by what KubeVela sends, with the structs of its time, while
// informers of both versions look on.
func TestTheirOldStructs(t *testing.T) {
	t.Parallel()
	a := start(t, rich())
	older, newer := a.informer("v1alpha1"), a.informer("v1beta1")
	call := func(verb string) result { return here.admin.run(t, "", verb, a.namespace, "web") }
	call("vela-approve").fails("nothing waits")
	a.release("v2")
	a.until("step 1 waits", a.waitsAt(1))
	before := a.fetch("web").Spec
	call("vela-suspend").works()
	a.until("it is paused", a.doing("Paused"))
	call("vela-resume").works()
	a.until("it goes on", a.doing("InRolling"))
	a.same("the spec", before, a.fetch("web").Spec)
	call("vela-approve").works()
	a.until("step 2 waits", a.waitsAt(2))
	call("vela-approve").works()
	a.until("the Rollout is Healthy", a.healthy)
	a.sees(a.onRecord("promote 1 admin applied", "promote 2 admin applied"))
	here.admin.kubectl(a, "delete", "rollout", "web").works()
	for _, i := range []*informer{older, newer} {
		a.until(i.version+" has seen it all", i.has("added web Healthy 3 Completed", "updated web Progressing 1 StepPaused",
			"updated web Progressing 2 StepPaused", "updated web Healthy 3 Completed", "deleted web"))
	}
}

// informer is a client that looks on.
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

func (i *informer) has(lines ...string) func(context.Context) error {
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

// informer starts one, and waits until it knows what is there.
func (a *app) informer(version string) *informer {
	a.t.Helper()
	i := &informer{version: version}
	cmd := exec.CommandContext(a.t.Context(), theirs("clients"), "inform", a.namespace, version)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+here.admin.kubeconfig)
	cmd.Stdout, cmd.Stderr = i, i
	stdin, err := cmd.StdinPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { a.ends(cmd, stdin) })
	a.until("the informer of "+version+" is there", i.has("synced"))
	return i
}

func (a *app) ends(cmd *exec.Cmd, stdin io.Closer) {
	// It has been killed if the test's time was over.
	if err := errors.Join(stdin.Close(), cmd.Wait()); err != nil && a.t.Context().Err() == nil {
		a.t.Error(err)
	}
}

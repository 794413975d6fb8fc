// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/apiserver"
	apply "github.com/weir-rollouts/weir/pkg/generated/applyconfiguration/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/generated/clientset/versioned"
	"github.com/weir-rollouts/weir/test/patience"
)

// Flags that need a cluster are refused by name.
func TestStandaloneRefusals(t *testing.T) {
	t.Parallel()
	over, end := context.WithCancel(t.Context())
	end() // what is not refused must not start serving either
	for args, says := range map[string]string{
		"--bind-address=0.0.0.0":      "--bind-address 0.0.0.0",
		"--bind-address=::":           "--bind-address ::",
		"--bind-address=192.0.2.1":    "--bind-address 192.0.2.1",
		"--kubeconfig=x":              "--kubeconfig",
		"--etcd-servers=http://x":     "--etcd-servers",
		"--webhook-port=9443":         "--webhook-port",
		"--authorization-kubeconfig=": "--authorization-kubeconfig",
	} {
		cmd := apiserver.NewCommand(nil)
		cmd.SetArgs([]string{"--standalone", args})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(over); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s is answered with %v, want %q in it", args, err, says)
		}
	}
}

// With --standalone, a developer can use everything except controllers: validation, apply, watches, verbs
// and approvals through the status.
func TestStandalone(t *testing.T) {
	t.Parallel()
	tracing, exported := collects(t)
	c, dir := standalone(t, "--tracing-config-file="+tracing)
	rollouts := c.RolloutsV1beta1().Rollouts("anywhere")
	events, err := rollouts.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()

	step := func(replicas string) *apply.StepApplyConfiguration {
		return apply.Step().WithReplicas(intstr.FromString(replicas))
	}
	wanted := apply.Rollout("web", "anywhere").WithSpec(apply.RolloutSpec().
		WithWorkloadRef(apply.ObjectRef().WithAPIVersion("apps/v1").WithKind("Deployment").WithName("web")).
		WithStrategy(apply.Strategy().WithCanary(apply.CanaryStrategy().WithSteps(step("20%"), step("10%")))))
	mine := metav1.ApplyOptions{FieldManager: "test"}
	if _, err := rollouts.Apply(t.Context(), wanted, mine); !apierrors.IsInvalid(err) {
		t.Errorf("a plan that shrinks is answered with %v, want Invalid", err)
	}
	wanted.Spec.Strategy.Canary.Steps[1].WithReplicas(intstr.FromString("100%"))
	r, err := rollouts.Apply(t.Context(), wanted, mine)
	if err != nil {
		t.Fatal(err)
	}

	// The developer writes the status, as the controller would.
	waits := func(since time.Time) {
		t.Helper()
		r.Status.Phase = v1beta1.PhaseProgressing
		r.Status.Canary = &v1beta1.CanaryStatus{CanaryRevision: "v2", Progress: v1beta1.Progress{
			CurrentStepIndex: 1, NextStepIndex: 2, State: v1beta1.StepPaused, LastUpdateTime: &metav1.Time{Time: since},
		}}
		r.Status.Conditions = []v1beta1.Condition{{Type: "Progressing", Status: metav1.ConditionTrue, Reason: "InRolling"}}
		if r, err = rollouts.UpdateStatus(t.Context(), r, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waits(r.CreationTimestamp.Time)
	wanted.Spec.Strategy.Canary.Steps[0].WithPause(apply.Pause().WithDuration(0))
	if r, err = rollouts.Apply(t.Context(), wanted, mine); err != nil {
		t.Fatal(err)
	}
	waits(r.CreationTimestamp.Add(time.Minute))
	approval := []byte(`{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`)
	if r, err = rollouts.Patch(t.Context(), "web", types.MergePatchType, approval, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	if d := r.Status.Decisions; len(d) != 2 || d[1].User != "developer" || string(d[1].Via) != "status" {
		t.Errorf("after an approval by the status on record is %+v", d)
	}
	abort := &v1beta1.AbortOptions{DecisionOptions: v1beta1.DecisionOptions{Reason: "too many errors"}}
	for range 2 { // the second time it is so already
		if _, err := rollouts.Abort(t.Context(), "web", abort, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
	if _, err := rollouts.Promote(t.Context(), "web", &v1beta1.PromoteOptions{}, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("promoting what is aborted is answered with %v, want a conflict", err)
	}
	audited(t, filepath.Join(dir, "audit.log"),
		"200|promote|spec|1|v2|1||Request", "200|promote|status|1|v2|2||Request",
		"201|abort|verb|1|v2|3|too many errors|RequestResponse", "201|abort|verb|1|v2||too many errors|RequestResponse",
		"409|promote|verb|||||RequestResponse")
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Modified, watch.Modified} {
		if e := <-events.ResultChan(); e.Type != want {
			t.Fatalf("the watch got %s, want %s", e.Type, want)
		}
	}
	// The server leaves no files outside of the directories of this test.
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("beside the kubeconfig and the audit log there are %v (%v)", left, err)
	}
	traced(t, exported)
}

// audited requires these decisions in the audit log of the example policy.
func audited(t *testing.T, path string, want ...string) {
	t.Helper()
	var got []string
	ctx, cancel := patience.Context(t.Context(), patience.Long)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) {
		data, err := os.ReadFile(path)
		got = decisions(data)
		return len(got) == len(want), err
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the audit log says (-want +got; %v):\n%s", err, diff)
	}
}

// decisions returns the requests of an audit log that decided, or tried to.
func decisions(log []byte) []string {
	var got []string
	for decoder := json.NewDecoder(bytes.NewReader(log)); ; {
		var e auditv1.Event
		if decoder.Decode(&e) != nil {
			return got // the end, or a line that is being written
		}
		if e.Annotations["rollouts.kruise.io/verb"] == "" {
			continue
		}
		said := []string{strconv.Itoa(int(e.ResponseStatus.Code))}
		for _, key := range []string{"verb", "via", "step", "revision", "decision", "reason"} {
			said = append(said, e.Annotations["rollouts.kruise.io/"+key])
		}
		got = append(got, strings.Join(append(said, string(e.Level)), "|"))
	}
}

// standalone runs the command as a developer does, and reads its output.
func standalone(t *testing.T, more ...string) (*versioned.Clientset, string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "kubeconfig")
	ctx, stop := context.WithCancel(context.Background())
	out, said := io.Pipe()
	cmd := apiserver.NewCommand(nil)
	cmd.SetArgs(append([]string{"--standalone", "--standalone-kubeconfig", path,
		"--audit-policy-file=../../artifacts/examples/audit-policy.yaml", "--audit-log-path=" + filepath.Join(dir, "audit.log")}, more...))
	cmd.SetOut(said)
	done := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		said.CloseWithError(err) // so that nobody waits for what is never said
		done <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	text := make([]byte, 4096)
	n, err := out.Read(text)
	if err != nil || !strings.Contains(string(text[:n]), "export KUBECONFIG="+path+"\n") {
		t.Fatalf("it said %q (%v)", text[:n], err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the kubeconfig is %v (%v), want mode 0600", info, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c, dir
}

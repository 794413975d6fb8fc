// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/doctor"
	"github.com/weir-rollouts/weir/test/cluster"
)

// TestDoctor checks that the doctor reports no problems of a fresh installation. Then it breaks two
// things. The doctor must report each with its fix, and nothing else. This test does not run in
// parallel with tests that need what is broken.
func TestDoctor(t *testing.T) {
	testEnv.eventually(t, "nothing is wrong", testEnv.doctorFinds(""))
	t.Run("rule", func(t *testing.T) {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "weir-controller"}}
		testEnv.change(t, role, func() {
			role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "horizontalpodautoscalers") })
		})
		testEnv.eventually(t, "the doctor reports it", testEnv.doctorFinds("access",
			"weir-controller may not: ", "patch horizontalpodautoscalers.autoscaling", "restores ClusterRole weir-controller"))
	})
	t.Run("leader", func(t *testing.T) {
		if err := testEnv.cluster.Kill(cluster.WeirController); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := testEnv.cluster.Start(cluster.WeirController); err != nil {
				t.Error(err)
			}
		})
		if usesLeaderElection() {
			runs := map[bool]string{true: cluster.WeirController, false: cluster.WeirAPIServer}[*apart]
			testEnv.eventually(t, "the doctor reports it", testEnv.doctorFinds("leader", "no controller leads", "app.kubernetes.io/name="+runs))
		}
	})
	testEnv.eventually(t, "nothing is wrong", testEnv.doctorFinds(""))
}

// usesLeaderElection reports whether weir-controller holds a lease, see TestMain.
func usesLeaderElection() bool { return !testing.Short() }

// doctorFinds returns a check that the doctor reports exactly one problem, of this check and with
// these words.
func (w *environment) doctorFinds(check string, words ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		code, results, err := w.doctor(ctx)
		if err != nil {
			return err
		}
		var said strings.Builder
		for _, r := range results {
			// If the server does not answer, the checks of its storage and its API fail, too, and
			// its lease expires.
			expected := r.Check == "leader" && !usesLeaderElection() ||
				check == "certificates" && (r.Status == doctor.Unknown || slices.Contains([]string{"api", "storage", "etcd", "leader"}, r.Check))
			if r.Status == doctor.OK || expected {
				continue
			}
			if r.Check != check {
				return fmt.Errorf("%s: %s (%s)", r.Check, r.What, r.Fix)
			}
			fmt.Fprintln(&said, r.What, r.Fix)
		}
		if check != "" && (said.Len() == 0 || code != 1) {
			return fmt.Errorf("the doctor found nothing, and ended with %d", code)
		}
		if check == "" && usesLeaderElection() && code != 0 {
			return fmt.Errorf("the doctor ended with %d", code)
		}
		for _, word := range words {
			if !strings.Contains(said.String(), word) {
				return fmt.Errorf("the message is %q, want %q in it", said.String(), word)
			}
		}
		return nil
	}
}

// doctor runs the command as an administrator does on the host of the embedded etcd.
func (w *environment) doctor(ctx context.Context) (int, []doctor.Result, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(w.cluster.WeirBin(), cluster.WeirAPIServer), "doctor", "-o=json",
		"--kubeconfig="+w.cluster.Kubeconfig(), "--data-dir="+w.cluster.WeirData())
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var report struct{ Results []doctor.Result }
	if bad := json.Unmarshal(out.Bytes(), &report); bad != nil || len(report.Results) == 0 {
		return 0, nil, fmt.Errorf("doctor: %w, %w: %s", err, bad, &said)
	}
	return cmd.ProcessState.ExitCode(), report.Results, nil
}

// change changes an object of the installation until the test ends.
func (w *environment) change(t *testing.T, o client.Object, how func()) {
	t.Helper()
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	before := o.DeepCopyObject().(client.Object)
	how()
	if err := w.client.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		before.SetResourceVersion(o.GetResourceVersion())
		if err := w.client.Update(context.WithoutCancel(t.Context()), before); err != nil {
			t.Error(err)
		}
	})
}

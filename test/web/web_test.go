// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && web

// Package web runs the browser tests of web/e2e that need a control plane, through kubectl proxy as
// users do. make e2e-web calls it.
package web

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/weir-rollouts/weir/test/cluster"
)

const kubectl = "../../bin/kube/kubectl"

// kubeUsers are users with the permissions of a ClusterRole.
var kubeUsers = map[string]string{"alice": "weir-release-manager", "bob": "weir-promoter", "victor": "view"}

func TestWeb(t *testing.T) {
	c := start(t)
	admin := c.Kubeconfig()
	environment := append(os.Environ(), "KUBECTL="+absolute(t, kubectl), "KUBECONFIG="+admin)
	for _, args := range [][]string{
		{"create", "-f", "../../artifacts/examples/echoserver.yaml"},
		{"create", "-f", "testdata/rollout.yaml", "-f", "testdata/judged.yaml"},
	} {
		run(t, environment, kubectl, args...)
	}
	for name, role := range kubeUsers {
		run(t, environment, kubectl, "create", "clusterrolebinding", name, "--clusterrole="+role, "--user="+name)
		run(t, environment, kubectl, "create", "clusterrolebinding", name+"-views", "--clusterrole=view", "--user="+name)
		kubeconfig, err := c.KubeconfigAs(name)
		if err != nil {
			t.Fatal(err)
		}
		environment = append(environment, "WEIR_"+name+"="+proxy(t, kubeconfig))
	}
	// alice also writes workloads, which rolling back a completed release needs.
	run(t, environment, kubectl, "create", "clusterrolebinding", "alice-edits", "--clusterrole=edit", "--user=alice")
	cmd := exec.CommandContext(t.Context(), "npx", "playwright", "test", "live.spec.ts")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = "../../web/e2e", environment, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
}

// start starts a control plane with Weir, until the test ends.
func start(t *testing.T) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{Weir: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, environment []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = environment
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

var serving = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// proxy starts kubectl proxy with the credentials of a user, and returns its address.
func proxy(t *testing.T, kubeconfig string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", kubeconfig, "proxy", "--port=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the process may have ended with the context
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + serving.FindString(line)
}

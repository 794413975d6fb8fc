// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package e2e tests whole releases on a real control plane, through the APIs that users have.
//
// All tests share one cluster, and each test has its own namespaces. Tests that kill processes run
// first, one at a time. All other tests run in parallel. From the start of an application until the
// end of its test, an availabilityGuard watches the pods. So every test also verifies that the
// release never makes too many pods unavailable.
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"

	"github.com/weir-rollouts/weir/test/cluster"
)

// testEnv is the control plane that all tests share.
var testEnv *environment

// The tests must pass for any pod startup time and on each supported version of Kubernetes.
var (
	podReady = flag.String("e2e.ready", "20ms..200ms", "how long a pod takes to become ready")
	apart    = flag.Bool("e2e.apart", false, "run weir-controller as a separate process instead of running the controllers in weir-apiserver")
	port     = flag.Int("e2e.port", 0, "port of weir-apiserver; any free port if 0")
	kube     = flag.String("e2e.kube", "", "directory with the Kubernetes binaries; bin/kube if empty")
)

func TestMain(m *testing.M) {
	// Tests mostly wait, so more tests run in parallel than there are processors.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "weir-e2e-")
	if err != nil {
		return 1, err
	}
	ready, err := cluster.ParseRange(*podReady)
	if err != nil {
		return 1, fmt.Errorf("-e2e.ready: %w", err)
	}
	opts := cluster.Options{
		Dir: dir, Weir: true, Log: os.Stderr, PodReady: ready, Bin: *kube, Audit: true, WeirEnv: []string{cluster.DetectMutations}, Apart: *apart, WeirPort: *port,
		// A small history limit that a test can exceed, and metric sources on this machine.
		WeirControllerArgs: []string{"--history-limit=2", "--source-hosts=127.0.0.1"},
	}
	if testing.Short() {
		// With leader election, a restarted process waits 15 s for the lease of the killed process.
		opts.WeirControllerArgs = append(opts.WeirControllerArgs, "--leader-elect=false")
	}
	c, err := cluster.Start(ctx, opts)
	if err != nil {
		return 1, fmt.Errorf("%w (its logs are in %s)", err, dir)
	}
	if testEnv, err = newEnvironment(c); err != nil {
		return 1, err
	}
	running := context.AfterFunc(ctx, func() {
		err := errors.Join(c.Stop(), os.RemoveAll(dir))
		fmt.Fprintln(os.Stderr, "e2e: interrupted", err)
		os.Exit(1)
	})
	code := m.Run()
	if !running() {
		select {} // the interruption exits
	}
	if code == 0 {
		err = errors.Join(permissionAudit.addCluster(ctx, c), permissionAudit.check())
	}
	if err := errors.Join(err, c.Stop()); err != nil {
		return 1, fmt.Errorf("%w\nthe logs of the cluster are in %s", err, dir)
	}
	if code != 0 {
		return code, fmt.Errorf("the logs of the cluster are in %s", dir)
	}
	return 0, os.RemoveAll(dir)
}

// selectCases returns all case names, sorted, or only the given ones in short mode.
func selectCases[V any](cases map[string]V, short ...string) []string {
	if testing.Short() {
		return short
	}
	return slices.Sorted(maps.Keys(cases))
}

// shortOrFull returns short in short mode, and full otherwise.
func shortOrFull(short, full int) int {
	if testing.Short() {
		return short
	}
	return full
}

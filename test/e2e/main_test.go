// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package e2e answers: does a release do what was promised, on a real control
// plane, seen from outside?
//
// One cluster serves all tests; each has namespaces of its own. Tests that kill
// processes run first, one after the other; the others run beside each other.
// From the start of an application to the end of its test a guard watches its
// pods, so every test also shows that none of its moves costs availability.
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

// testEnv is where all tests run.
var testEnv *environment

// Cases must hold however fast pods become ready, on each version of Kubernetes.
var (
	podReady = flag.String("e2e.ready", "20ms..200ms", "how long a pod takes to become ready")
	apart    = flag.Bool("e2e.apart", false, "run weir-controller apart, and not the controllers in the process of weir-apiserver")
	kube     = flag.String("e2e.kube", "", "a directory with the binaries of Kubernetes, other than bin/kube")
)

func TestMain(m *testing.M) {
	// Tests mostly wait, so more of them than processors run beside each other.
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
		Dir: dir, Weir: true, Log: os.Stderr, PodReady: ready, Bin: *kube, Audit: true, WeirEnv: []string{cluster.DetectMutations}, Apart: *apart,
		// So few that a test can have one too many; and a source on this machine.
		WeirControllerArgs: []string{"--history-limit=2", "--source-hosts=127.0.0.1"},
	}
	if testing.Short() {
		// A lease that a killed process held is waited for, for fifteen seconds.
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

// selectCases are the cases for a short pass, or all of them.
func selectCases[V any](cases map[string]V, short ...string) []string {
	if testing.Short() {
		return short
	}
	return slices.Sorted(maps.Keys(cases))
}

// shortOrFull chooses between the number for a short pass and that for a full one.
func shortOrFull(short, full int) int {
	if testing.Short() {
		return short
	}
	return full
}

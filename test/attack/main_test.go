// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package attack tries to circumvent Weir as users with limited permissions.
//
// The table matrix contains the attacks. Each cell runs on a real control plane as a user with
// exactly the permissions of a role. Afterwards the test checks the objects and the pods of the
// cluster. All cells share one cluster, and each cell has its own namespace.
package attack

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/weir-rollouts/weir/test/cluster"
)

// testEnv is the control plane of all cells.
var testEnv *environment

func TestMain(m *testing.M) {
	// Cells mostly wait, so more cells run in parallel than there are processors.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "weir-attack-")
	if err != nil {
		return 1, err
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Dir: dir, Weir: true, Log: os.Stderr, Audit: true, WeirEnv: []string{cluster.DetectMutations},
		PodReady: cluster.Range{Min: 20 * time.Millisecond, Max: 200 * time.Millisecond},
		// On a busy machine a lost lease would cause a restart that no attack caused.
		WeirControllerArgs: []string{"--leader-elect=false"},
		WeirApiserverArgs:  []string{fmt.Sprintf("--max-open-trees=%d", mostTrees)},
	})
	if err != nil {
		return 1, fmt.Errorf("%w (its logs are in %s)", err, dir)
	}
	running := context.AfterFunc(ctx, func() {
		fmt.Fprintln(os.Stderr, "attack: interrupted", errors.Join(c.Stop(), os.RemoveAll(dir)))
		os.Exit(1)
	})
	if testEnv, err = newEnvironment(ctx, c); err != nil {
		return 1, errors.Join(err, c.Stop())
	}
	if err := startKruise(ctx); err != nil {
		return 1, errors.Join(err, c.Stop())
	}
	code := m.Run()
	if !running() {
		select {} // the interruption exits
	}
	if err := c.Stop(); err != nil || code != 0 {
		return max(code, 1), errors.Join(err, fmt.Errorf("the logs of the cluster are in %s", dir))
	}
	return 0, os.RemoveAll(dir)
}

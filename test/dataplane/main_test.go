// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic

// Package dataplane checks that a release loses no requests, and that each version gets its share.
//
// A real proxy, Traefik, reads routes and endpoints from a real control plane (test/cluster), and
// sends real requests to the addresses of simulated pods. Everything runs in a network namespace
// whose only interface is a loopback interface with the addresses of all pods. docs/dataplane.md
// describes the measurements.
//
//	load -> Traefik -> address of a pod: a server as long as the pod is Ready
//	           |
//	           v
//	     kube-apiserver <- weir-controller
package dataplane

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

// testEnv is the environment that all tests share.
var testEnv *environment

// insideEnv is an environment variable of the program that runs in the network namespace.
const insideEnv = "WEIR_DATAPLANE_INSIDE"

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := 0, error(nil)
	if os.Getenv(insideEnv) == "" {
		code, err = rerunInNamespace()
	} else if err = connect(); err == nil {
		code, err = run(m)
	}
	var refused namespaceError
	switch {
	case errors.As(err, &refused):
		fmt.Printf("dataplane: SKIPPED, this machine allows no network namespace: %v\n", refused.error)
		code = 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "dataplane:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// namespaceError is the error on a machine that does not allow network namespaces.
type namespaceError struct{ error }

func (r namespaceError) Unwrap() error { return r.error }

func run(m *testing.M) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "weir-dataplane-")
	if err != nil {
		return 1, err
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Dir: dir, Log: os.Stderr, Weir: true, WeirApiserverArgs: []string{"--source-hosts=127.0.0.1"},
		PodReady: cluster.Range{Min: 200 * time.Millisecond, Max: 800 * time.Millisecond},
	})
	if err != nil {
		return 1, fmt.Errorf("%w (its logs are in %s)", err, dir)
	}
	interrupted := context.AfterFunc(ctx, func() {
		fmt.Fprintln(os.Stderr, "dataplane: interrupted", errors.Join(c.Stop(), os.RemoveAll(dir)))
		os.Exit(1)
	})
	code := 1
	testEnv = &environment{cluster: c}
	if err = testEnv.open(ctx); err == nil {
		code = m.Run()
	}
	testEnv.end()
	if !interrupted() {
		select {} // the interruption exits
	}
	err = errors.Join(err, c.Stop())
	if code != 0 || err != nil {
		return max(code, 1), errors.Join(err, fmt.Errorf("the logs are in %s", dir))
	}
	return 0, os.RemoveAll(dir)
}

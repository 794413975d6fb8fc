// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/weir-rollouts/weir/test/cluster"
)

// kubeFreezes are how long kube-apiserver is frozen: slightly longer than the deadline of the lease
// renewal, and long enough that several restarts of the controllers fail.
var kubeFreezes = []time.Duration{6 * time.Second, 20 * time.Second}

// TestKubeAPIServerFrozen freezes kube-apiserver during a release. The lease cannot be renewed, so
// the controllers stop, and start again once kube-apiserver answers. The process of weir-apiserver
// must continue, because its API and webhook need no lease. This test does not run in parallel with
// others.
func TestKubeAPIServerFrozen(t *testing.T) {
	a := startPausedAtStep1(t)
	pid, err := testEnv.cluster.Pid(cluster.WeirAPIServer)
	if err != nil {
		t.Fatal(err)
	}
	for i, long := range kubeFreezes {
		step := int32(i + 1)
		a.promote(step)
		if err := testEnv.cluster.Signal(cluster.KubeAPIServer, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, long, true, func(context.Context) (bool, error) {
			return false, sameServer(pid)
		})
		if woken := testEnv.cluster.Signal(cluster.KubeAPIServer, syscall.SIGCONT); woken != nil {
			t.Fatal(woken)
		}
		if !wait.Interrupted(err) {
			t.Fatal(err)
		}
		if step < 2 {
			a.eventually("the next step waits", a.waitsAtStep(step+1))
		}
	}
	a.eventually("the release is complete", a.released("v2"))
	a.eventually("the controllers lead again", leadsAgain)
	a.consistently("weir-apiserver", func(context.Context) error { return sameServer(pid) })
}

// sameServer reports whether weir-apiserver is still the process that it was.
func sameServer(pid int) error {
	now, err := testEnv.cluster.Pid(cluster.WeirAPIServer)
	if err == nil && now != pid {
		err = errors.New("weir-apiserver has ended, and was started again")
	}
	return err
}

// leadsAgain returns an error unless the metrics report that the controllers lead.
func leadsAgain(ctx context.Context) error {
	page, err := testEnv.getPage(ctx, testEnv.cluster.Metrics())
	if err == nil && !strings.Contains(page, "weir_controller_leads 1") {
		err = errors.New("the metrics do not report that the controllers lead")
	}
	return err
}

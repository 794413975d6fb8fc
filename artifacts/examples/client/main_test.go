// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/apiserver/apiservertest"
	"github.com/weir-rollouts/weir/pkg/generated/clientset/versioned"
	typed "github.com/weir-rollouts/weir/pkg/generated/clientset/versioned/typed/rollouts/v1beta1"
)

// The example promotes every step of a release on a real server. The test moves
// the release on, as the controller would.
func TestExample(t *testing.T) {
	t.Parallel()
	server, err := apiservertest.Start(t.TempDir(), []user.DefaultInfo{{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}},
		func(authorizer.Attributes) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() {
		err := run(ctx, &out, server.As("admin"), "ns", "web")
		done <- err
		if err != nil {
			cancel() // nobody promotes any more
		}
	}()

	clientset, err := versioned.NewForConfig(server.As("admin"))
	if err != nil {
		t.Fatal(err)
	}
	rollouts := clientset.RolloutsV1beta1().Rollouts("ns")
	for step := int32(1); step <= 3; step++ {
		pause(ctx, t, rollouts, step)
		until(ctx, t, rollouts, func(r *v1beta1.Rollout) bool { return r.Status.Canary.State == v1beta1.StepReady })
	}
	write(ctx, t, rollouts, func(s *v1beta1.RolloutStatus) { s.Phase, s.Message = v1beta1.PhaseHealthy, "completed" })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want := []string{
		"watching rollout ns/web", "promoted step 1 of v2", "promoted step 2 of v2", "promoted step 3 of v2", "healthy: completed",
	}
	if got := strings.Split(strings.TrimSpace(out.String()), "\n"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the example said %q, want %q", got, want)
	}
	r, err := rollouts.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Status.Decisions) != 3 {
		t.Errorf("on record are %d decisions, want 3: %+v", len(r.Status.Decisions), r.Status.Decisions)
	}
}

// pause lets a step wait for an approval.
func pause(ctx context.Context, t *testing.T, rollouts typed.RolloutInterface, step int32) {
	t.Helper()
	next := step + 1
	if step == 3 {
		next = -1
	}
	write(ctx, t, rollouts, func(s *v1beta1.RolloutStatus) {
		s.Phase = v1beta1.PhaseProgressing
		s.Canary = &v1beta1.CanaryStatus{CanaryRevision: "v2", Progress: v1beta1.Progress{
			RolloutHash: "plan", CurrentStepIndex: step, NextStepIndex: next, State: v1beta1.StepPaused,
			LastUpdateTime: &metav1.Time{Time: time.Now().Add(time.Duration(step) * time.Minute)},
		}}
		s.Conditions = []v1beta1.Condition{{Type: "Progressing", Status: metav1.ConditionTrue, Reason: "InRolling", Message: "rolling"}}
	})
}

func write(ctx context.Context, t *testing.T, rollouts typed.RolloutInterface, change func(*v1beta1.RolloutStatus)) {
	t.Helper()
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		r, err := rollouts.Get(ctx, "web", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		change(&r.Status)
		_, err = rollouts.UpdateStatus(ctx, r, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func until(ctx context.Context, t *testing.T, rollouts typed.RolloutInterface, reached func(*v1beta1.Rollout) bool) {
	t.Helper()
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		r, err := rollouts.Get(ctx, "web", metav1.GetOptions{})
		return err == nil && reached(r), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// failure is a row of the table in docs/guarantees.md.
type failure struct {
	name string
	// begin causes the failure, and end ends it.
	begin, end func() error
	// expectations are what works meanwhile.
	expectations
}

// expectations are what works during a failure. That pods, traffic and holds stay as they are, and
// that the rest of Kubernetes works, is expected of every failure.
type expectations struct {
	// kubeAPIServerDown reports whether kube-apiserver is down, so that nothing can be checked.
	kubeAPIServerDown bool
	// acceptsDecisions reports whether Rollouts can be read and decisions are recorded.
	acceptsDecisions bool
	// webhookAnswers reports whether the webhook answers.
	webhookAnswers bool
	// apiDiscovered reports whether discovery lists the API group. If it is false and kube-apiserver works, discovery
	// eventually fails for Weir's groups, so that clients that list all kinds skip them.
	apiDiscovered bool
	// deletesNamespaces reports whether namespaces can be deleted.
	deletesNamespaces bool
}

// Expectations that several failures share.
var (
	noReconciles = expectations{acceptsDecisions: true, webhookAnswers: true, apiDiscovered: true, deletesNamespaces: true}
	noPods       = expectations{acceptsDecisions: true, webhookAnswers: true, apiDiscovered: true}
	noServer     = expectations{}
	noKube       = expectations{kubeAPIServerDown: true}
)

// failures are the failures of an installation without replicas.
func failures() []failure {
	server, controller, kube := cluster.WeirAPIServer, cluster.WeirController, cluster.KubeAPIServer
	rows := []failure{
		{"weir-apiserver is killed", killEach(server), startEach(server), noServer},
		{"weir-apiserver is terminated", terminateEach(server), startEach(server), noServer},
		{"weir-apiserver is frozen", freezeEach(server), unfreezeEach(server), noServer},
		{"weir-apiserver is out of reach", pointServiceTo("127.0.0.2"), pointServiceTo("localhost"), noServer},
		{"the disk of weir-apiserver is full", inOrder(fillDiskOfEach(server), storeSomething), inOrder(killEach(server), startEach(server)), noServer},
		{"weir-controller is killed", killEach(controller), startEach(controller), noReconciles},
		{"weir-controller is terminated", terminateEach(controller), startEach(controller), noReconciles},
		{
			"kube-apiserver restarts while Weir is down",
			inOrder(killEach(controller, server, kube), startEach(kube)), startEach(server, controller), noServer,
		},
		{"kube-apiserver is killed", killEach(kube), startEach(kube), noKube},
		{"kube-controller-manager is killed", killEach(cluster.ControllerManager), startEach(cluster.ControllerManager), noPods},
	}
	if *apart { // otherwise this freezes the server
		rows = append(rows, failure{"weir-controller is frozen", freezeEach(controller), unfreezeEach(controller), noReconciles})
	}
	return rows[:shortOrFull(1, len(rows))]
}

// TestFailures takes one release through all failures. During each failure the release stays at its
// paused step. After that the step is approved, unless this was possible before, and the next step
// pauses. This test does not run in parallel with others.
func TestFailures(t *testing.T) {
	runFailures(t, failures())
}

func runFailures(t *testing.T, rows []failure) {
	s := newFailureApp(t, int32(len(rows)))
	for i, row := range rows {
		step := int32(i + 1)
		if !t.Run(row.name, func(t *testing.T) { s.runThroughFailure(t, row, step) }) {
			return // later rows would run in a broken cluster
		}
	}
	s.checkRecovery()
}

// planWithManySteps is a plan with this many paused steps, each with more traffic than the one
// before, and a last step.
func planWithManySteps(n int32) plan {
	p := defaultPlan()
	p.replicas, p.steps = 8, nil
	for i := range n + 1 {
		p.steps = append(p.steps, withTraffic(manualStep(strconv.Itoa(int(podsAt(i+1, n)))), fmt.Sprintf("%d%%", i+1)))
	}
	p.steps = append(p.steps, manualStep("100%"))
	return p
}

// podsAt returns the number of new pods at a step of planWithManySteps.
func podsAt(step, n int32) int32 { return 1 + 5*(step-1)/n }

func inOrder(first, second func() error) func() error {
	return func() error { return errors.Join(first(), second()) }
}

// each calls do for each process in turn.
func each(names []string, do func(string) error) func() error {
	return func() error {
		for _, name := range names {
			if err := do(name); err != nil {
				return err
			}
		}
		return nil
	}
}

func killEach(names ...string) func() error {
	return each(names, func(n string) error { return testEnv.cluster.Kill(n) })
}

func terminateEach(names ...string) func() error {
	return each(names, func(n string) error { return testEnv.cluster.End(n) })
}

func startEach(names ...string) func() error {
	return each(names, func(n string) error { return testEnv.cluster.Start(n) })
}

func freezeEach(names ...string) func() error {
	return each(names, func(n string) error { return testEnv.cluster.Signal(n, syscall.SIGSTOP) })
}

func unfreezeEach(names ...string) func() error {
	return each(names, func(n string) error { return testEnv.cluster.Signal(n, syscall.SIGCONT) })
}

func fillDiskOfEach(names ...string) func() error {
	return each(names, func(n string) error { return testEnv.cluster.FillDisk(n) })
}

// storeSomething makes weir-apiserver write to its store, which must fail.
func storeSomething() error {
	h := &v1alpha1.RolloutHistory{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "never"}}
	if err := testEnv.client.Create(context.Background(), h); err == nil {
		return errors.New("the object was stored")
	}
	return nil
}

// pointServiceTo changes the address of the Service of weir-apiserver.
func pointServiceTo(host string) func() error {
	return func() error {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: cluster.WeirAPIServer}}
		return testEnv.client.Patch(context.Background(), s, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"externalName":%q}}`, host)))
	}
}

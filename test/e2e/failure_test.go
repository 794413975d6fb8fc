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
	// begin is what happens, and end is what ends it.
	begin, end func() error
	// expectations is what is left.
	expectations
}

// expectations is what works during a failure. That pods, traffic and holds stay as
// they are, and that the rest of Kubernetes works, is no matter of a row.
type expectations struct {
	// kubeAPIServerDown reports whether kube-apiserver is gone, so that there is nothing to see.
	kubeAPIServerDown bool
	// acceptsDecisions reports whether Rollouts are read and decisions recorded.
	acceptsDecisions bool
	// webhookAnswers reports whether the webhook answers.
	webhookAnswers bool
	// apiDiscovered reports whether the API group is there, whatever its objects are.
	apiDiscovered bool
	// deletesNamespaces reports whether namespaces can be deleted.
	deletesNamespaces bool
}

// What a failure leaves.
var (
	noReconciles = expectations{acceptsDecisions: true, webhookAnswers: true, apiDiscovered: true, deletesNamespaces: true}
	noPods       = expectations{acceptsDecisions: true, webhookAnswers: true, apiDiscovered: true}
	noStore      = expectations{webhookAnswers: true, apiDiscovered: true}
	noServer     = expectations{}
	noKube       = expectations{kubeAPIServerDown: true}
)

// failures are those of the small installation.
func failures() []failure {
	server, controller, kube := cluster.WeirAPIServer, cluster.WeirController, cluster.KubeAPIServer
	rows := []failure{
		{"weir-apiserver is killed", killEach(server), startEach(server), noServer},
		{"weir-apiserver is told to end", terminateEach(server), startEach(server), noServer},
		{"weir-apiserver is frozen", freezeEach(server), unfreezeEach(server), noServer},
		{"weir-apiserver is out of reach", pointServiceTo("127.0.0.2"), pointServiceTo("localhost"), noServer},
		{"its disk is full", inOrder(fillDiskOfEach(server), storeSomething), inOrder(killEach(server), startEach(server)), noServer},
		{"weir-controller is killed", killEach(controller), startEach(controller), noReconciles},
		{"weir-controller is told to end", terminateEach(controller), startEach(controller), noReconciles},
		{
			"kube-apiserver restarts while Weir is down",
			inOrder(killEach(controller, server, kube), startEach(kube)), startEach(server, controller), noServer,
		},
		{"kube-apiserver is killed", killEach(kube), startEach(kube), noKube},
		{"kube-controller-manager is killed", killEach(cluster.ControllerManager), startEach(cluster.ControllerManager), noPods},
	}
	if *apart { // else it is the server that is frozen
		rows = append(rows, failure{"weir-controller is frozen", freezeEach(controller), unfreezeEach(controller), noReconciles})
	}
	return rows[:shortOrFull(1, len(rows))]
}

// One release goes through all failures. Each finds it at a step that waits, and
// leaves it there; then the step is approved, if it could not be before, and the
// next one waits. These do not run beside other tests.
func TestFailures(t *testing.T) {
	runFailures(t, failures())
}

func runFailures(t *testing.T, rows []failure) {
	s := newFailureApp(t, int32(len(rows)))
	for i, row := range rows {
		step := int32(i + 1)
		if !t.Run(row.name, func(t *testing.T) { s.runThroughFailure(t, row, step) }) {
			return // those after it would find a cluster that is broken already
		}
	}
	s.checkRecovery()
}

// planWithManySteps is a release of so many steps that wait, each with more traffic than
// the one before, and a last one.
func planWithManySteps(n int32) plan {
	p := defaultPlan()
	p.replicas, p.steps = 8, nil
	for i := range n + 1 {
		p.steps = append(p.steps, withTraffic(manualStep(strconv.Itoa(int(podsAt(i+1, n)))), fmt.Sprintf("%d%%", i+1)))
	}
	p.steps = append(p.steps, manualStep("100%"))
	return p
}

// podsAt is how many new pods there are at a step, of the first n+1.
func podsAt(step, n int32) int32 { return 1 + 5*(step-1)/n }

func inOrder(first, second func() error) func() error {
	return func() error { return errors.Join(first(), second()) }
}

// each does something to processes, one after the other.
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

// storeSomething makes weir-apiserver store something, which fails.
func storeSomething() error {
	h := &v1alpha1.RolloutHistory{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "never"}}
	if err := testEnv.client.Create(context.Background(), h); err == nil {
		return errors.New("it was stored")
	}
	return nil
}

// pointServiceTo is where the Service of weir-apiserver leads.
func pointServiceTo(host string) func() error {
	return func() error {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: cluster.WeirAPIServer}}
		return testEnv.client.Patch(context.Background(), s, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"externalName":%q}}`, host)))
	}
}

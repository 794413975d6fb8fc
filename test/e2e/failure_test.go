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
	what string
	// begin is what happens, and end is what ends it.
	begin, end func() error
	// meanwhile is what is left.
	meanwhile
}

// meanwhile is what works during a failure. That pods, traffic and holds stay as
// they are, and that the rest of Kubernetes works, is no matter of a row.
type meanwhile struct {
	// unseen reports whether kube-apiserver is gone, so that there is nothing to see.
	unseen bool
	// decides reports whether Rollouts are read and decisions recorded.
	decides bool
	// admits reports whether the webhook answers.
	admits bool
	// listed reports whether the API group is there, whatever its objects are.
	listed bool
	// deletes reports whether namespaces can be deleted.
	deletes bool
}

// What a failure leaves.
var (
	noMoves  = meanwhile{decides: true, admits: true, listed: true, deletes: true}
	noPods   = meanwhile{decides: true, admits: true, listed: true}
	noStore  = meanwhile{admits: true, listed: true}
	noServer = meanwhile{}
	noKube   = meanwhile{unseen: true}
)

// failures are those of the small installation.
func failures() []failure {
	server, controller, kube := cluster.WeirAPIServer, cluster.WeirController, cluster.KubeAPIServer
	rows := []failure{
		{"weir-apiserver is killed", killed(server), started(server), noServer},
		{"weir-apiserver is told to end", ended(server), started(server), noServer},
		{"weir-apiserver is frozen", frozen(server), woken(server), noServer},
		{"weir-apiserver is out of reach", leadsTo("127.0.0.2"), leadsTo("localhost"), noServer},
		{"its disk is full", inOrder(filled(server), writes), inOrder(killed(server), started(server)), noServer},
		{"weir-controller is killed", killed(controller), started(controller), noMoves},
		{"weir-controller is told to end", ended(controller), started(controller), noMoves},
		{
			"kube-apiserver restarts while Weir is down",
			inOrder(killed(controller, server, kube), started(kube)), started(server, controller), noServer,
		},
		{"kube-apiserver is killed", killed(kube), started(kube), noKube},
		{"kube-controller-manager is killed", killed(cluster.ControllerManager), started(cluster.ControllerManager), noPods},
	}
	if *apart { // else it is the server that is frozen
		rows = append(rows, failure{"weir-controller is frozen", frozen(controller), woken(controller), noMoves})
	}
	return rows[:few(1, len(rows))]
}

// One release goes through all failures. Each finds it at a step that waits, and
// leaves it there; then the step is approved, if it could not be before, and the
// next one waits. These do not run beside other tests.
func TestFailures(t *testing.T) {
	suffer(t, failures())
}

func suffer(t *testing.T, rows []failure) {
	s := newSufferer(t, int32(len(rows)))
	for i, row := range rows {
		step := int32(i + 1)
		if !t.Run(row.what, func(t *testing.T) { s.suffer(t, row, step) }) {
			return // those after it would find a cluster that is broken already
		}
	}
	s.recovers()
}

// inSteps is a release of so many steps that wait, each with more traffic than
// the one before, and a last one.
func inSteps(n int32) plan {
	p := usual()
	p.replicas, p.steps = 8, nil
	for i := range n + 1 {
		p.steps = append(p.steps, with(manual(strconv.Itoa(int(podsAt(i+1, n)))), fmt.Sprintf("%d%%", i+1)))
	}
	p.steps = append(p.steps, manual("100%"))
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

func killed(names ...string) func() error {
	return each(names, func(n string) error { return here.cluster.Kill(n) })
}

func ended(names ...string) func() error {
	return each(names, func(n string) error { return here.cluster.End(n) })
}

func started(names ...string) func() error {
	return each(names, func(n string) error { return here.cluster.Start(n) })
}

func frozen(names ...string) func() error {
	return each(names, func(n string) error { return here.cluster.Signal(n, syscall.SIGSTOP) })
}

func woken(names ...string) func() error {
	return each(names, func(n string) error { return here.cluster.Signal(n, syscall.SIGCONT) })
}

func filled(names ...string) func() error {
	return each(names, func(n string) error { return here.cluster.FillDisk(n) })
}

// writes makes weir-apiserver store something, which fails.
func writes() error {
	h := &v1alpha1.RolloutHistory{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "never"}}
	if err := here.client.Create(context.Background(), h); err == nil {
		return errors.New("it was stored")
	}
	return nil
}

// leadsTo is where the Service of weir-apiserver leads.
func leadsTo(host string) func() error {
	return func() error {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: cluster.WeirAPIServer}}
		return here.client.Patch(context.Background(), s, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"externalName":%q}}`, host)))
	}
}

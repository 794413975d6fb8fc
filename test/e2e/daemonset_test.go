// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDaemonSet tells stories of DaemonSets.
func TestDaemonSet(t *testing.T) {
	t.Parallel()
	stories := map[string]func(*testing.T){
		"to the end":         daemonsToTheEnd,
		"third":              daemonsThird,
		"never ready":        daemonsNeverReady,
		"aborted":            daemonsAborted,
		"aborted when whole": daemonsAbortedWhenWhole,
		"aborted at once":    daemonsAbortedAtOnce,
		"nodes come and go":  daemonsOnOtherNodes,
		"deleted":            daemonsDeleted,
		"deleted, aborted":   daemonsDeletedAborted,
		"disabled":           daemonsDisabled,
		"labelled, jumping":  daemonsLabelled,
		"on delete":          daemonsOnDelete,
		"surge":              daemonsSurge,
		"nowhere":            daemonsNowhere,
	}
	for _, name := range some(stories, "to the end", "aborted", "nodes come and go") {
		t.Run(name, stories[name])
	}
}

// Cases 73 and 75: a step with traffic, one without, to the end; then back to what
// was before, which is a release like any other.
func daemonsToTheEnd(t *testing.T) {
	t.Parallel()
	s := startDaemons(t, 4, true, nil, with(manual("1"), "20%"), manual("3"), manual("100%")).serve()
	s.guard.atMost("v2", 1)
	s.ships("v2")
	s.step(1, 1, "v2")
	s.sees(s.weight("20"))
	s.sees(s.serves(name, versions{"v1": 3}))
	s.sees(s.serves(name+"-canary", versions{"v2": 1}))
	s.guard.atMost("v2", 3)
	s.promote(1)
	s.step(2, 3, "v2")
	s.sees(s.weight(""))
	s.sees(s.serves(name, versions{"v1": 1, "v2": 3}))
	s.guard.atMost("v2", 4)
	s.promote(2)
	s.gives("v2")
	s.ships("v1")
	s.until("step 1 waits", s.waitsAt(1))
	s.sees(s.runsPods(versions{"v1": 1, "v2": 3}))
	s.promoteAll()
	s.gives("v1")
	s.sees(s.succeeded)
}

// Case 74: a third version begins at step 1; pods of the second go first.
func daemonsThird(t *testing.T) {
	t.Parallel()
	s := startDaemons(t, 3, false, nil, manual("1"), manual("2"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.promote(1)
	s.step(2, 2, "v2")
	s.guard.atMost("v3", 1)
	s.ships("v3")
	s.step(1, 1, "v3")
	s.sees(s.runsPods(versions{"v1": 1, "v2": 1, "v3": 1}))
	s.guard.atMost("v3", 3)
	s.promoteAll()
	s.gives("v3")
}

// A version that never gets ready costs one pod, and that only until its owner
// goes back.
func daemonsNeverReady(t *testing.T) {
	t.Parallel()
	s := startDaemons(t, 3, true, nil, with(manual("2"), "20%"), manual("100%")).serve()
	s.ships("failed")
	s.until("step 1 waits for its pods", s.says("1 of 1 new pods"))
	s.sees(s.at(1, "StepUpgrade"))
	s.ships("v1")
	s.gives("v1")
}

// An abort brings every pod back. The stable template stays live, so that nodes
// which join get no aborted version; then it is tried again, and rolled back.
func daemonsAborted(t *testing.T) {
	t.Parallel()
	s := startDaemons(t, 3, true, nil, with(manual("1"), "20%"), with(manual("2"), "50%"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.promote(1)
	s.step(2, 2, "v2")
	s.abort()
	s.stands(byHand, "v1")
	s.sees(s.runsPods(versions{"v1": 3}))
	s.sees(s.serves(name, versions{"v1": 3}))
	s.sees(s.weight(""))
	s.guard.atMost("v2", 0)
	s.joins()
	s.until("the new node has a pod", s.runsPods(versions{"v1": 4}))
	s.guard.atLeast(3)
	s.ships("v2")
	s.until("the stable template is live again", s.lives("v1"))
	s.until("its controller has seen that", s.runsPods(versions{"v1": 4}))
	s.stays("nothing is released", s.runsPods(versions{"v1": 4}))
	s.sees(s.isAborted)
	s.guard.atMost("v2", 1)
	s.post(here.admin, "retry", "", http.StatusCreated)
	s.step(1, 1, "v2")
	s.post(here.admin, "rollback", "", http.StatusCreated)
	s.gives("v1")
}

// When every pod runs the new version its native controller would forget the
// stable one, as the owner's history limit says. Another version comes after the abort.
func daemonsAbortedWhenWhole(t *testing.T) {
	t.Parallel()
	s := startDaemons(t, 3, false, nil, manual("1"), manual("3")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.promote(1)
	s.step(2, 3, "v2")
	s.abort()
	s.stands(byHand, "v1")
	s.sees(s.runsPods(versions{"v1": 3}))
	s.ships("v3")
	s.step(1, 1, "v3")
	s.promoteAll()
	s.gives("v3")
}

// An abort before the first batch, which waits for a Service that is not there,
// keeps the aborted version from nodes that join, too.
func daemonsAbortedAtOnce(t *testing.T) {
	t.Parallel()
	s := startDaemons(t, 3, true, nil, with(manual("1"), "20%"), manual("100%")).serve()
	if err := here.client.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}); err != nil {
		t.Fatal(err)
	}
	s.ships("v2")
	s.until("the release waits for the Service", s.doing("Initializing"))
	s.abort()
	s.stands(byHand, "v1")
	s.guard.atMost("v2", 0)
	s.joins()
	s.until("the new node has a pod", s.runsPods(versions{"v1": 4}))
	s.create(s.newService())
	s.guard.atMost("v2", 1)
	s.post(here.admin, "retry", "", http.StatusCreated)
	s.step(1, 1, "v2")
	s.post(here.admin, "rollback", "", http.StatusCreated)
	s.gives("v1")
}

// A node that joins while a step waits gets the newest version, which counts; one
// that leaves takes its pod along.
func daemonsOnOtherNodes(t *testing.T) {
	t.Parallel()
	s := startDaemons(t, 3, false, nil, manual("1"), manual("2"), manual("100%")).serve()
	s.ships("v2")
	s.step(1, 1, "v2")
	s.joins()
	s.until("the new node has a pod", s.runsPods(versions{"v1": 2, "v2": 2}))
	s.stays("the step waits", s.waitsAt(1))
	s.guard.atLeast(3)
	s.promote(1)
	s.step(2, 2, "v2")
	s.guard.atLeast(2)
	s.lose(s.namespace + "-3")
	s.nodes = 3
	s.until("the step has its share again", s.runsPods(versions{"v1": 1, "v2": 2}))
	s.until("step 2 waits", s.waitsAt(2))
	s.promote(2)
	s.gives("v2")
}

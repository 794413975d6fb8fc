// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && long

package e2e

import (
	"net/http"
	"strconv"
	"testing"
)

// TestKillAborting kills the processes of Weir during an abort, which continues after the restart.
func TestKillAborting(t *testing.T) {
	for round := range 2 {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			a := start(t, defaultPlan())
			a.release("v2")
			a.eventually("step 1 waits", a.waitsAtStep(1))
			a.promote(1)
			a.eventually("step 2 waits", a.waitsAtStep(2))
			k := newKiller(a, round)
			a.post(testEnv.admin, "abort", "", http.StatusCreated)
			k.kill()
			k.follow(nil, a.isAborted)
			a.checkAborted("v1")
			a.checkNow(a.hasDecisions("promote 1 admin applied", "abort 2 admin applied"))
			a.guard.atMost("v2", 0)
			a.cancel("v1")
			t.Logf("killed %d times: %v", k.kills, k.stages)
		})
	}
}

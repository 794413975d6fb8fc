// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && long

package e2e

import (
	"net/http"
	"strconv"
	"testing"
)

// An abort goes on whichever process of Weir is killed meanwhile.
func TestKillAborting(t *testing.T) {
	for round := range 2 {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			a := start(t, usual())
			a.release("v2")
			a.until("step 1 waits", a.waitsAt(1))
			a.promote(1)
			a.until("step 2 waits", a.waitsAt(2))
			k := newKiller(a, round)
			a.post(here.admin, "abort", "", http.StatusCreated)
			k.kill()
			k.follow(nil, a.isAborted)
			a.isBack("v1")
			a.sees(a.onRecord("promote 1 admin applied", "abort 2 admin applied"))
			a.guard.atMost("v2", 0)
			a.cancel("v1")
			t.Logf("killed %d times: %v", k.kills, k.stages)
		})
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weir-rollouts/weir/test/cluster"
)

// goal is what an attacker wants to achieve.
type goal string

// The columns of the matrix.
const (
	ship       goal = "ship a version"
	shipOld    goal = "ship an old one"
	skip       goal = "skip a step"
	undoAbort  goal = "undo an abort"
	blockAbort goal = "block an abort"
	forge      goal = "forge a record"
	destroy    goal = "have something deleted or scaled"
	slow       goal = "slow or fill another namespace"
	learn      goal = "learn what one may not read"
	crash      goal = "make a process restart"
)

// cell is one attack: a user, a goal and a way to reach the goal.
type cell struct {
	who  role
	what goal
	// how distinguishes this attack from others with the same goal.
	how string
	// admission reports whether the attack depends on admission. It then also runs with the webhook
	// only and with the policies only.
	admission bool
	// exclusive reports whether other cells would notice the attack, so that no cell runs in
	// parallel.
	exclusive bool
	// long reports whether the short form omits the cell.
	long bool
	// scenario is the state before the attack.
	scenario scenario
	// attack sends the requests. Every answer is kept.
	attack func(*app, *user)
	// expect checks the answers and the cluster.
	expect func(*app)
}

func (c cell) String() string { return fmt.Sprintf("%s/%s/%s", c.who, c.what, c.how) }

// matrix contains all cells.
var matrix = slices.Concat(
	labelCells, collisionCells, recordAnnotationCells, statusCells, extraDeploymentCells, fitnessCells, templateCells, recreatedCells,
	verbCells, checkCells, recordCells, recordedTextCells, originCells,
	ownerCells, networkCells, disablingCells, leftoverCells, deletedRevisionCells,
	deletionCells, toggleCells, beforeRolloutCells, ordinalCells, scaledToOneCells, refusedTemplateCells, removedOwnerCells, keptReplicaSetCells, revertCells,
	foldedCells, informerCells, sandboxCells, webhookPortCells, anonymousCells, neighbourCells, treeWatchCells,
)

// TestAttack runs every cell with webhook and policies and, where admission matters, with each of
// them alone. The short form omits the latter and long cells.
func TestAttack(t *testing.T) {
	for _, d := range testEnv.admissionSettings() {
		t.Run(d.name, func(t *testing.T) {
			d.set(t)
			before := pids(t)
			tried := func(c cell) bool { return (c.admission || d.all) && !(c.long && testing.Short()) }
			t.Run("together", func(t *testing.T) {
				for _, c := range matrix {
					if tried(c) && !c.exclusive {
						t.Run(c.String(), func(t *testing.T) {
							t.Parallel()
							c.try(t)
						})
					}
				}
			})
			for _, c := range matrix {
				if tried(c) && c.exclusive {
					t.Run("alone/"+c.String(), c.try)
				}
			}
			if after := pids(t); after != before {
				t.Errorf("a process of Weir was restarted: %v, now %v", before, after)
			}
		})
	}
}

// try carries out an attack and checks its result.
func (c cell) try(t *testing.T) {
	a := start(t, c.scenario)
	u := a.userWithRole(c.who)
	a.before = a.facts()
	c.attack(a, u)
	c.expect(a)
}

// pids returns the process ids of Weir.
func pids(t *testing.T) [2]int {
	t.Helper()
	var ids [2]int
	for i, name := range []string{cluster.WeirAPIServer, cluster.WeirController} {
		var err error
		if ids[i], err = testEnv.cluster.Pid(name); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

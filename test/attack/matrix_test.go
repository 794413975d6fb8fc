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

// goal is what somebody wants to reach.
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

// cell is one way in which somebody tries to reach something.
type cell struct {
	who  role
	what goal
	// how tells it from other ways to the same.
	how string
	// admission reports whether it depends on admission, so that it is tried with each door alone, too.
	admission bool
	// exclusive reports whether others would notice, so that nothing runs beside it.
	exclusive bool
	// long reports whether the short form leaves it out.
	long bool
	// scenario is what is there before.
	scenario scenario
	// attack is the attack. Every answer to it is kept.
	attack func(*app, *user)
	// expect judges the answers and the world.
	expect func(*app)
}

func (c cell) String() string { return fmt.Sprintf("%s/%s/%s", c.who, c.what, c.how) }

// matrix is all cells.
var matrix = slices.Concat(
	labelCells, collisionCells, recordAnnotationCells, statusCells, extraDeploymentCells, fitnessCells, templateCells, recreatedCells,
	verbCells, checkCells, recordCells, textCells, originCells,
	ownerCells, networkCells, disablingCells, leftoverCells, deletedRevisionCells,
	deletionCells, toggleCells, beforeRolloutCells, ordinalCells, scaledToOneCells, refusedTemplateCells, removedOwnerCells, keptReplicaSetCells, flipCells,
	foldedCells, informerCells, sandboxCells, portCells, anonymousCells, neighbourCells, treeWatchCells,
)

// TestAttack tries every cell with both doors open and, where admission decides,
// with each of them alone. The short form leaves the second and long cells out.
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

// try carries out an attack and has it judged.
func (c cell) try(t *testing.T) {
	a := start(t, c.scenario)
	u := a.userWithRole(c.who)
	a.before = a.facts()
	c.attack(a, u)
	c.expect(a)
}

// pids are the processes of Weir.
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

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/planner"
)

type checks struct{ t testing.TB }

func newChecks(t testing.TB) *checks { return &checks{t} }

func (c *checks) rollout(o planner.Observed, p planner.Plan)         {}
func (c *checks) batch(o planner.BatchObserved, p planner.BatchPlan) {}
func (c *checks) sizes(s planner.Scaling, d planner.Scale)           {}
func (c *checks) commit(actor string, o object.Object)               {}
func (c *checks) effect(actor string, o object.Object)               {}
func (c *checks) wrote(actor string, old, next object.Object)        {}

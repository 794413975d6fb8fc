// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Decision is the result of Decide: the next status of a Rollout, and what must be done to reach it.
type Decision struct {
	// Case is the case that applied first. Passed has the names of all cases and stages of the pass, in
	// their order.
	Case   Case
	Passed []string
	// State is the state of the release according to Status.
	State State
	// Verdicts are the verdicts of the gates of the step.
	Verdicts []Verdict
	// Status is the whole next status, never a patch.
	Status rollouts.RolloutStatus
	// Actions are carried out in their order. There are none if everything observed is as it should be.
	Actions []Action
	// Histories are stored once Status is stored, before the actions.
	Histories []HistoryEntry
	// Events are announced once Status is stored.
	Events []Event
	// Wake is the time until the next pass; zero if the next pass begins when something changes.
	Wake time.Duration
	// MeasurementRequests are the measurements that the next pass needs.
	MeasurementRequests []MeasurementRequest
}

// String describes the decision, one line for each fact.
func (d Decision) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "state    %s\n", d.State)
	fmt.Fprintf(&out, "passed   %s\n", strings.Join(d.Passed, ", "))
	for _, v := range d.Verdicts {
		fmt.Fprintf(&out, "gate     %s\n", v)
	}
	for _, a := range d.Actions {
		fmt.Fprintf(&out, "action   %s\n", a)
	}
	for _, e := range d.Events {
		fmt.Fprintf(&out, "event    %s: %s\n", e.Reason, e.Message)
	}
	if d.Wake > 0 {
		fmt.Fprintf(&out, "wake     in %s\n", d.Wake)
	}
	return out.String()
}

// Event is an announcement of what has happened.
type Event struct {
	Warning bool
	Reason  string
	Message string
	// When is BeforeStatus for an event about what a BeforeStatus action stores. It is announced only
	// if that action does not fail: otherwise each later pass would announce it again.
	When When
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
)

const (
	// showMarks prints labels and annotations of all that Weir touches.
	showMarks = `kubectl get deployment,service,ingress echoserver -o jsonpath='` +
		`{range .items[*]}{.kind} {.metadata.labels} {.metadata.annotations}{"\n"}{end}'`
	showVersions = `kubectl get rs -o custom-columns=` +
		`NAME:.metadata.name,PODS:.spec.replicas,READY:.status.readyReplicas,VERSION:.spec.template.spec.containers[0].env[0].value`
	showDecisions = `kubectl get rollout rollouts-demo -o jsonpath='` +
		`{range .status.decisions[*]}{.time} {.user}: {.verb} of step {.step} {.reason}{"\n"}{end}'`
)

// decision is what must be on record of a verb.
type decision struct {
	verb string
	step int32
	user string
}

func (s *story) onRecord(want ...decision) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := s.rollout(ctx)
		if err != nil {
			return err
		}
		var got []decision
		for _, d := range r.Status.Decisions {
			got = append(got, decision{string(d.Verb), d.Step, d.User})
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the record has %v, want %v", got, want)
		}
		return nil
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Health of nodes.
const (
	healthy     = "Healthy"
	progressing = "Progressing"
	waiting     = "Waiting"
	suspended   = "Suspended"
	degraded    = "Degraded"
	missing     = "Missing"
)

// stateHealth is the health of a Rollout by its state. Other states are progressing or waiting.
var stateHealth = map[planner.State]string{
	planner.StatePaused:  suspended,
	planner.StateRefused: degraded,
	planner.StateAborted: degraded,
}

// waitHealth is the health of a Rollout by what it waits for.
var waitHealth = map[planner.Wait]string{
	planner.WaitNothing:  healthy,
	planner.WaitApproval: waiting,
	planner.WaitTime:     waiting,
	planner.WaitDecision: waiting,
}

func rolloutHealth(r *rollouts.Rollout) (string, *metav1.Time) {
	wait := planner.WaitingFor(r)
	since := &wait.Since
	if since.IsZero() {
		since = nil
	}
	for _, c := range []*rollouts.Condition{r.Status.Failing(), r.Status.Stalled()} {
		if c != nil {
			return degraded, &c.LastTransitionTime
		}
	}
	if r.Status.Phase == rollouts.PhaseDisabled {
		return suspended, since
	}
	for _, health := range []string{stateHealth[planner.StateOf(r)], waitHealth[wait.For]} {
		if health != "" {
			return health, since
		}
	}
	return progressing, since
}

func workloadHealth(f *facts, ready int32) string {
	switch {
	case len(f.PodCreationErrors) > 0:
		return degraded
	case !f.Settled, f.NativeUpdateRunning, ready < f.Replicas:
		return progressing
	default:
		return healthy
	}
}

func templateImages(t *corev1.PodTemplateSpec) []string { return containerImages(t.Spec.Containers) }

func containerImages(containers []corev1.Container) []string {
	var all []string
	for _, c := range containers[:min(len(containers), maxNodes)] {
		all = append(all, rollouts.Clean(c.Image, maxImage))
	}
	return all
}

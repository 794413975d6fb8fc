// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// standing is where a release stands, as far as verbs care.
type standing string

const (
	// atRest: no release is in progress.
	atRest standing = "at rest"
	// departing: the Rollout is being deleted or disabled.
	departing standing = "departing"
	// starting: the release waits for what its first step needs.
	starting standing = "starting"
	// running: a step is under way, or waits.
	running standing = "running"
	// frozen: paused by the verb, by the spec, or by both.
	frozen standing = "frozen"
	// replacing: another template is taking over.
	replacing standing = "replacing"
	// reverting: aborted, whether stable is whole again or not.
	reverting standing = "reverting"
	// completing: every step is done, and the workload is still held.
	completing standing = "completing"
	// handingBack: the workload is being given back.
	handingBack standing = "handing back"
	// cancelling: the template is the stable one again.
	cancelling standing = "cancelling"
)

// underWay are the standings in which an abort has something to undo.
var underWay = []standing{departing, starting, running, frozen, replacing, completing}

func standingOf(r *rollouts.Rollout) standing {
	p := r.Status.Active()
	switch {
	case r.Status.Phase != rollouts.PhaseProgressing || p == nil:
		return atRest
	case r.Status.Activity() == rollouts.ActivityCancelling:
		return cancelling
	case r.Status.Activity() == rollouts.ActivityFinalising && !abortable(p):
		return handingBack
	case r.Status.Activity() == rollouts.ActivityAborting || r.Status.Activity() == rollouts.ActivityAborted:
		return reverting
	case r.DeletionTimestamp != nil || r.Spec.Disabled:
		return departing
	case r.Status.Activity() == rollouts.ActivityFinalising:
		return completing
	case r.Spec.Strategy.Paused || p.Paused:
		return frozen
	case p.FinalisingStep != "" && p.State != rollouts.BeforeStepUpgrade:
		return replacing
	case r.Status.Activity() == rollouts.ActivityInitializing:
		return starting
	default:
		return running
	}
}

// explain says where the release stands, and what would help.
func (s standing) explain(r *rollouts.Rollout) string {
	p := r.Status.Active()
	switch s {
	case atRest:
		return fmt.Sprintf("no release is in progress (phase %s)", r.Status.Phase)
	case departing:
		return departure(r)
	case starting:
		return "the release is about to start its first step"
	case frozen:
		return thaw(r)
	case replacing:
		return fmt.Sprintf("another template is taking the place of revision %s", p.UpdateRevision)
	case reverting:
		return fmt.Sprintf("the release was aborted%s; retry starts it again at step 1, rollback sets the stable template, and releasing another template supersedes it",
			abortedBy(r))
	case completing:
		return "every step is done and the release is being completed; abort is still possible"
	case handingBack:
		return "the release is complete and the workload is being given back; release the earlier template to go back"
	case cancelling:
		return "the release is being cancelled, since the template is the stable one again"
	default:
		return fmt.Sprintf("the release is in progress, at step %d in state %s", p.CurrentStepIndex, p.State)
	}
}

func departure(r *rollouts.Rollout) string {
	if r.DeletionTimestamp != nil {
		return "the rollout is being deleted"
	}
	return "the rollout is disabled; set spec.disabled to false to release again"
}

// thaw says what ends the pause.
func thaw(r *rollouts.Rollout) string {
	if r.Spec.Strategy.Paused {
		return "the rollout is paused; set spec.strategy.paused to false first"
	}
	return fmt.Sprintf("the release was paused%s; resume it first", pausedBy(r))
}

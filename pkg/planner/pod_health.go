// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"time"

	"github.com/weir-rollouts/weir/pkg/judge"
)

// PodHealth summarizes the health of the pods of a revision.
type PodHealth struct {
	Pods, Ready int32
	// ErrorExits counts the exits of containers with an error. OOMKills counts those of them that were
	// caused by the memory limit.
	ErrorExits, OOMKills int32
	// CrashLoops counts the pods with a container in the state CrashLoopBackOff.
	CrashLoops int32
	// UnreadySince is when the first pod that had been ready became unready; zero if none is unready.
	UnreadySince time.Time
}

// PodHealthByRevision is the health of the pods of both revisions.
type PodHealthByRevision struct{ New, Stable PodHealth }

// The thresholds of the check podsHealthy. Error exits count only if the new pods have at least
// minRateRatio times as many for each pod as the stable ones.
const (
	minErrorExits  = 3
	minOOMKills    = 2
	minRateRatio   = 3.0
	maxUnreadyTime = time.Minute
)

// JudgePods returns the verdict of the check podsHealthy. A problem that the stable pods have as well does not fail
// the check.
func JudgePods(p PodHealthByRevision, now time.Time) judge.Verdict {
	n, worse := p.New, p.New.failureRate() >= minRateRatio*p.Stable.failureRate()
	unready := now.Sub(n.UnreadySince)
	switch {
	case n.OOMKills >= minOOMKills && worse:
		return podsFailed("containers of %d new pods were OOM-killed %d times (stable pods: %d)", n.Pods, n.OOMKills, p.Stable.OOMKills)
	case n.ErrorExits >= minErrorExits && worse:
		return podsFailed("containers of %d new pods exited with an error %d times (%d stable pods: %d)", n.Pods, n.ErrorExits, p.Stable.Pods, p.Stable.ErrorExits)
	case n.isCrashLooping() && !p.Stable.isCrashLooping():
		return podsFailed("%d of %d new pods are in a crash loop", n.CrashLoops, n.Pods)
	case n.UnreadySince.IsZero() || !p.Stable.UnreadySince.IsZero():
		return judge.Verdict{Is: judge.Passed, Why: podsHealthyWhy}
	case unready > maxUnreadyTime:
		return podsFailed("a new pod that had been ready is unready for %s", unready.Truncate(time.Second))
	}
	return judge.Verdict{Is: judge.Passed, Why: podsHealthyWhy, Wake: maxUnreadyTime - unready + time.Second}
}

// podsHealthyWhy is the message of a check that has passed.
const podsHealthyWhy = "new pods are as healthy as the stable ones"

// podsFailed returns a failed verdict.
func podsFailed(format string, args ...any) judge.Verdict {
	return judge.Verdict{Is: judge.Failed, Why: fmt.Sprintf(format, args...)}
}

// failureRate returns the number of error exits for each pod.
func (h PodHealth) failureRate() float64 { return float64(h.ErrorExits) / float64(max(h.Pods, 1)) }

// isCrashLooping reports whether at least half of the pods have a container that crashes repeatedly.
func (h PodHealth) isCrashLooping() bool { return h.CrashLoops > 0 && 2*h.CrashLoops >= h.Pods }

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"time"

	"github.com/weir-rollouts/weir/pkg/judge"
)

// PodHealth is how the pods of a revision get on.
type PodHealth struct {
	Pods, Ready int32
	// ErrorExits counts containers that ended with an error, and OutOfMemory those of them that
	// were out of memory.
	ErrorExits, OOMKills int32
	// CrashLoops counts pods with a container that is started again later and later.
	CrashLoops int32
	// UnreadySince is since when a pod is unready that had been ready; zero if none is.
	UnreadySince time.Time
}

// PodHealthByRevision are the pods of both revisions.
type PodHealthByRevision struct{ New, Stable PodHealth }

// The limits of podsHealthy.
const (
	manyEnds        = 3
	manyOutOfMemory = 2
	worseThanStable = 3.0
	longUnready     = time.Minute
)

// JudgePods judges the pods of the new version: not for what stable's pods do as well.
func JudgePods(p PodHealthByRevision, now time.Time) judge.Verdict {
	n, worse := p.New, p.New.failureRate() >= worseThanStable*p.Stable.failureRate()
	unready := now.Sub(n.UnreadySince)
	switch {
	case n.OOMKills >= manyOutOfMemory && worse:
		return podsFailed("containers of %d new pods ended %d times out of memory, those of stable %d times", n.Pods, n.OOMKills, p.Stable.OOMKills)
	case n.ErrorExits >= manyEnds && worse:
		return podsFailed("containers of %d new pods ended %d times with an error, those of %d stable pods %d times", n.Pods, n.ErrorExits, p.Stable.Pods, p.Stable.ErrorExits)
	case n.isCrashLooping() && !p.Stable.isCrashLooping():
		return podsFailed("%d of %d new pods crash again and again", n.CrashLoops, n.Pods)
	case n.UnreadySince.IsZero() || !p.Stable.UnreadySince.IsZero():
		return judge.Verdict{Is: judge.Passed, Why: podsHealthyWhy}
	case unready > longUnready:
		return podsFailed("a new pod that had been ready is unready for %s", unready.Truncate(time.Second))
	}
	return judge.Verdict{Is: judge.Passed, Why: podsHealthyWhy, Wake: longUnready - unready + time.Second}
}

const podsHealthyWhy = "the new pods get on as well as the stable ones"

func podsFailed(format string, args ...any) judge.Verdict {
	return judge.Verdict{Is: judge.Failed, Why: fmt.Sprintf(format, args...)}
}

// failureRate is how often a container has ended with an error, for each pod.
func (h PodHealth) failureRate() float64 { return float64(h.ErrorExits) / float64(max(h.Pods, 1)) }

// isCrashLooping reports whether half of the pods crash again and again.
func (h PodHealth) isCrashLooping() bool { return h.CrashLoops > 0 && 2*h.CrashLoops >= h.Pods }

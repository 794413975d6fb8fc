// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"strconv"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// Keys of the annotations in the audit log. They say of every decision,
// whichever way it came, what the address of the request does not.
const (
	auditVerb     = rollouts.GroupName + "/verb"
	auditVia      = rollouts.GroupName + "/via"
	auditStep     = rollouts.GroupName + "/step"
	auditRevision = rollouts.GroupName + "/revision"
	auditDecision = rollouts.GroupName + "/decision"
	auditReason   = rollouts.GroupName + "/reason"
)

// attempt is what a request decides, for the audit log. A request that meets a
// conflict decides again, and the last attempt counts.
type attempt struct {
	command  *verb.Command
	step     int32
	revision string
	// decision is the number of the entry in the record; 0 if nothing was added.
	decision int64
	// status is what an annotation has decided, to be stored with the rest of its write.
	status *rollouts.RolloutStatus
}

type attemptKey struct{}

// withAttempt makes a request remember what it decides.
func withAttempt(ctx context.Context) (context.Context, *attempt) {
	a := &attempt{}
	return context.WithValue(ctx, attemptKey{}, a), a
}

// forgetAttempt forgets what an earlier try of the request has decided.
func forgetAttempt(ctx context.Context) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		*a = attempt{}
	}
}

// decide has the planner decide, and remembers it for the audit log.
func decide(ctx context.Context, r *rollouts.Rollout, c verb.Command) (string, error) {
	forgetAttempt(ctx)
	now := attempt{command: &c}
	if p := r.Status.Active(); p != nil {
		now.step, now.revision = p.CurrentStepIndex, p.UpdateRevision
	}
	before := latestDecision(r)
	warn, err := verb.Apply(r, c)
	if id := latestDecision(r); err == nil && id != before {
		now.decision = id
		if c.Shortage != "" {
			warning.AddWarning(ctx, "", "the decision is recorded without its reason and user agent, which only the audit log has: "+c.Shortage)
		}
	}
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		*a = now
	}
	return warn, err
}

// latestDecision is the number of the latest decision on record. Their count may stay:
// an older one may have made room.
func latestDecision(r *rollouts.Rollout) int64 {
	if n := len(r.Status.Decisions); n > 0 {
		return r.Status.Decisions[n-1].ID
	}
	return 0
}

// annotate writes to the audit log. A refusal names the verb only, since a patch
// that is refused is tried again, and the log keeps what it was told first.
func (a *attempt) annotate(ctx context.Context, err error) {
	audit.AddAuditAnnotations(ctx, auditVerb, string(a.command.Verb), auditVia, string(a.command.Via))
	if err != nil {
		return
	}
	audit.AddAuditAnnotations(ctx, auditStep, strconv.Itoa(int(a.step)), auditRevision, a.revision)
	if a.decision != 0 {
		audit.AddAuditAnnotation(ctx, auditDecision, strconv.FormatInt(a.decision, 10))
	}
	if reason := a.command.Options.Reason; reason != "" {
		audit.AddAuditAnnotation(ctx, auditReason, reason)
	}
}

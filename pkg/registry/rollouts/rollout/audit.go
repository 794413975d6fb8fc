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

// These are the keys of audit annotations. They describe each decision, whether it came by a verb, the
// status, the spec or an annotation.
const (
	auditVerb     = rollouts.GroupName + "/verb"
	auditVia      = rollouts.GroupName + "/via"
	auditStep     = rollouts.GroupName + "/step"
	auditToStep   = rollouts.GroupName + "/to-step"
	auditFull     = rollouts.GroupName + "/full"
	auditRevision = rollouts.GroupName + "/revision"
	auditDecision = rollouts.GroupName + "/decision"
	auditReason   = rollouts.GroupName + "/reason"
)

// attempt is the decision of a request, for the audit log. A request that meets a conflict decides again,
// and its last attempt counts.
type attempt struct {
	command  *verb.Command
	step     int32
	revision string
	// decision is the ID of the recorded decision; 0 if none was recorded.
	decision int64
	// status is the result of an annotation's decision, to be stored with the rest of the update.
	status *rollouts.RolloutStatus
}

type attemptKey struct{}

// withAttempt returns a context in which applyVerb records the decision of the request.
func withAttempt(ctx context.Context) (context.Context, *attempt) {
	a := &attempt{}
	return context.WithValue(ctx, attemptKey{}, a), a
}

// clearAttempt clears the decision of an earlier attempt of the request.
func clearAttempt(ctx context.Context) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		*a = attempt{}
	}
}

// applyVerb applies a command to the Rollout, and records the decision for the audit log.
func applyVerb(ctx context.Context, r *rollouts.Rollout, c verb.Command) (string, error) {
	clearAttempt(ctx)
	now := attempt{command: &c}
	if p := r.Status.Active(); p != nil {
		now.step, now.revision = p.CurrentStepIndex, p.UpdateRevision
	}
	before := latestDecisionID(r)
	warn, err := verb.Apply(r, c)
	if id := latestDecisionID(r); err == nil && id != before {
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

// latestDecisionID returns the ID of the latest recorded decision. The number of decisions would not show a
// new one: recording a decision may remove an older one.
func latestDecisionID(r *rollouts.Rollout) int64 {
	if n := len(r.Status.Decisions); n > 0 {
		return r.Status.Decisions[n-1].ID
	}
	return 0
}

// addAuditAnnotations writes audit annotations. A refusal gets only the verb: a refused patch is retried, and the
// audit log keeps the first value of a key.
func (a *attempt) addAuditAnnotations(ctx context.Context, err error) {
	audit.AddAuditAnnotations(ctx, auditVerb, string(a.command.Verb), auditVia, string(a.command.Via))
	if err != nil {
		return
	}
	audit.AddAuditAnnotations(ctx, auditStep, strconv.Itoa(int(a.step)), auditRevision, a.revision)
	if a.command.Verb == rollouts.VerbJump {
		audit.AddAuditAnnotation(ctx, auditToStep, strconv.Itoa(int(a.command.Step)))
	}
	if a.command.Full {
		audit.AddAuditAnnotation(ctx, auditFull, "true")
	}
	if a.decision != 0 {
		audit.AddAuditAnnotation(ctx, auditDecision, strconv.FormatInt(a.decision, 10))
	}
	if reason := a.command.Options.Reason; reason != "" {
		audit.AddAuditAnnotation(ctx, auditReason, reason)
	}
}

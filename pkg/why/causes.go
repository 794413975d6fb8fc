// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// blockingConditions are conditions that explain why a release does not continue, the most
// important first.
var blockingConditions = []struct {
	kind    rollouts.ConditionType
	bad     metav1.ConditionStatus
	about   string
	objects func(*rollouts.Rollout) []rollouts.ObjectRef
}{
	{rollouts.ConditionWritable, metav1.ConditionFalse, "write", workloadRefs},
	{rollouts.ConditionRevertible, metav1.ConditionFalse, "stable", workloadRefs},
	{rollouts.ConditionRoutable, metav1.ConditionFalse, "route", networkRefs},
	{rollouts.ConditionProtected, metav1.ConditionFalse, "admission", workloadRefs},
	{rollouts.ConditionBypassed, metav1.ConditionTrue, "admission", workloadRefs},
}

// causes returns what prevents the release from continuing.
func causes(r *rollouts.Rollout, s planner.State, batch *rollouts.BatchRelease) []rollouts.Cause {
	var out []rollouts.Cause
	failing := r.Status.Failing()
	if failing != nil {
		out = append(out, failingCause(r, failing))
	}
	if c := r.Status.Stalled(); c != nil {
		out = append(out, stalledCause(r, c))
	}
	for _, row := range blockingConditions {
		if c := r.Status.Condition(row.kind); c != nil && c.Status == row.bad && !isExplained(c.Message, out) {
			out = append(out, rollouts.Cause{About: row.about, Message: c.Message, Objects: row.objects(r)})
		}
	}
	p := r.Status.Active()
	if p == nil || s == planner.StateIdle {
		return out
	}
	for _, cause := range progressCauses(r, p, batch) {
		if !isExplained(cause.Message, out) {
			out = append(out, cause)
		}
	}
	return append(out, checkCauses(r)...)
}

// isExplained reports whether a message is among the causes that were found before.
func isExplained(message string, causes []rollouts.Cause) bool {
	return slices.ContainsFunc(causes, func(c rollouts.Cause) bool { return c.Message == strings.TrimSuffix(message, ".") })
}

// failingCause returns why the release fails, and the fix.
func failingCause(r *rollouts.Rollout, c *rollouts.Condition) rollouts.Cause {
	cause := rollouts.Cause{About: "failing", Objects: workloadRefs(r)}
	switch rollouts.FailingReason(c.Reason) {
	case rollouts.FailingObjectMissing, rollouts.FailingRouteBlocked:
		cause.Objects = networkRefs(r)
	}
	cause.Message, cause.Advice = planner.SplitHelp(c.Message)
	return cause
}

// stalledCause returns the message of the condition. The summary says what to do about an abort.
func stalledCause(r *rollouts.Rollout, c *rollouts.Condition) rollouts.Cause {
	cause := rollouts.Cause{About: "stalled", Message: c.Message, Objects: workloadRefs(r)}
	if rollouts.StallReason(c.Reason) == rollouts.StalledDeadline {
		cause.About = "deadline"
		cause.Message, cause.Advice = planner.SplitHelp(c.Message)
	}
	return cause
}

// progressCauses returns the messages of the step and of the BatchRelease about pods and routes.
func progressCauses(r *rollouts.Rollout, p *rollouts.Progress, batch *rollouts.BatchRelease) []rollouts.Cause {
	about, objects := "route", networkRefs
	if p.State == rollouts.StepUpgrade || p.State == "" {
		about, objects = "pods", workloadRefs
	}
	var out []rollouts.Cause
	if p.Message != "" {
		out = append(out, rollouts.Cause{About: about, Message: p.Message, Objects: objects(r)})
	}
	if batch != nil && batch.Status.Message != "" && batch.Status.Message != p.Message {
		out = append(out, rollouts.Cause{About: "pods", Message: batch.Status.Message, Objects: workloadRefs(r)})
	}
	return out
}

// checkCauses returns the checks of the step that have not passed, with their numbers.
func checkCauses(r *rollouts.Rollout) []rollouts.Cause {
	a, p := r.Status.Analysis, r.Status.Active()
	if a == nil || a.Step != p.CurrentStepIndex {
		return nil
	}
	var out []rollouts.Cause
	for _, c := range a.Checks {
		if slices.Contains([]rollouts.CheckResult{rollouts.CheckPassed, rollouts.CheckSkipped}, c.Result) {
			continue
		}
		cause := rollouts.Cause{About: "checks", Message: "check " + c.Name + " " + describeCheck(c) + requestCounts(c)}
		if c.Result != rollouts.CheckRunning {
			namespace := ""
			if r.Namespace != "" {
				namespace = " -n " + r.Namespace
			}
			cause.Advice = "abort, or kubectl weir promote " + r.Name + namespace + " --override --reason '…' (needs permission to create rollouts/override)"
		}
		out = append(out, cause)
	}
	return out
}

// describeCheck returns the state of a check and the reason.
func describeCheck(c rollouts.CheckStatus) string {
	switch {
	case strings.HasPrefix(c.Why, judge.Invalid):
		return c.Why
	case c.Result == rollouts.CheckFailed:
		return "has failed: " + c.Why
	case c.Result == rollouts.CheckInconclusive:
		return "is inconclusive: " + c.Why
	default:
		return "is running: " + c.Why
	}
}

// requestCounts returns the request counts of a check.
func requestCounts(c rollouts.CheckStatus) string {
	var text strings.Builder
	for _, of := range []struct {
		whose string
		n     *rollouts.RequestCount
	}{{"new", c.New}, {"stable", c.Old}} {
		if of.n != nil {
			fmt.Fprintf(&text, "; of %d requests to the %s version %d were bad", of.n.Total, of.whose, of.n.Bad)
		}
	}
	return text.String()
}

func workloadRefs(r *rollouts.Rollout) []rollouts.ObjectRef {
	if r.Spec.WorkloadRef == nil {
		return nil
	}
	return []rollouts.ObjectRef{*r.Spec.WorkloadRef}
}

// networkRefs returns the Service and the routers that a plan names.
func networkRefs(r *rollouts.Rollout) []rollouts.ObjectRef {
	_, release := r.Spec.Strategy.Active()
	if release == nil || len(release.TrafficRoutings) == 0 {
		return nil
	}
	ref := release.TrafficRoutings[0]
	out := []rollouts.ObjectRef{{APIVersion: "v1", Kind: "Service", Name: ref.Service}}
	if ref.Ingress != nil {
		out = append(out, rollouts.ObjectRef{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: ref.Ingress.Name})
	}
	if ref.Gateway != nil && ref.Gateway.HTTPRouteName != nil {
		out = append(out, rollouts.ObjectRef{APIVersion: "gateway.networking.k8s.io/v1", Kind: "HTTPRoute", Name: *ref.Gateway.HTTPRouteName})
	}
	for i, c := range ref.CustomNetworkRefs {
		if i < rollouts.MaxNetworkRefs {
			out = append(out, c)
		}
	}
	return out
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// conditions that say why a release does not go on, the most important first.
var conditions = []struct {
	kind    rollouts.ConditionType
	bad     metav1.ConditionStatus
	about   string
	objects func(*rollouts.Rollout) []rollouts.ObjectRef
}{
	{rollouts.ConditionWritable, metav1.ConditionFalse, "write", workload},
	{rollouts.ConditionRevertible, metav1.ConditionFalse, "stable", workload},
	{rollouts.ConditionRoutable, metav1.ConditionFalse, "route", network},
	{rollouts.ConditionProtected, metav1.ConditionFalse, "admission", workload},
	{rollouts.ConditionBypassed, metav1.ConditionTrue, "admission", workload},
}

// causes are what keeps the release where it is.
func causes(r *rollouts.Rollout, s planner.State, batch *rollouts.BatchRelease) []rollouts.Cause {
	var out []rollouts.Cause
	if c := r.Status.Stalled(); c != nil {
		out = append(out, stalled(r, c))
	}
	for _, row := range conditions {
		if c := r.Status.Condition(row.kind); c != nil && c.Status == row.bad {
			out = append(out, rollouts.Cause{About: row.about, Message: c.Message, Objects: row.objects(r)})
		}
	}
	p := r.Status.Active()
	if p == nil || s == planner.StateIdle {
		return out
	}
	out = append(out, trouble(r, p, batch)...)
	return append(out, checks(r)...)
}

// stalled is what the condition says. What to do about an abort, the summary says.
func stalled(r *rollouts.Rollout, c *rollouts.Condition) rollouts.Cause {
	cause := rollouts.Cause{About: "stalled", Message: c.Message, Objects: workload(r)}
	if rollouts.StallReason(c.Reason) == rollouts.StalledDeadline {
		cause.About = "deadline"
		cause.Message, cause.Advice = planner.SplitHelp(c.Message)
	}
	return cause
}

// trouble is what the batch, or the step, says of pods and routes.
func trouble(r *rollouts.Rollout, p *rollouts.Progress, batch *rollouts.BatchRelease) []rollouts.Cause {
	about, objects := "route", network
	if p.State == rollouts.StepUpgrade || p.State == "" {
		about, objects = "pods", workload
	}
	var out []rollouts.Cause
	if p.Message != "" {
		out = append(out, rollouts.Cause{About: about, Message: p.Message, Objects: objects(r)})
	}
	if batch != nil && batch.Status.Message != "" && batch.Status.Message != p.Message {
		out = append(out, rollouts.Cause{About: "pods", Message: batch.Status.Message, Objects: workload(r)})
	}
	return out
}

// checks are those of the step that have not passed, with their numbers.
func checks(r *rollouts.Rollout) []rollouts.Cause {
	a, p := r.Status.Analysis, r.Status.Active()
	if a == nil || a.Step != p.CurrentStepIndex {
		return nil
	}
	var out []rollouts.Cause
	for _, c := range a.Checks {
		if slices.Contains([]rollouts.CheckResult{rollouts.CheckPassed, rollouts.CheckSkipped}, c.Result) {
			continue
		}
		cause := rollouts.Cause{About: "checks", Message: fmt.Sprintf("check %s is %s: %s%s", c.Name, c.Result, c.Why, counts(c))}
		if c.Result != rollouts.CheckRunning {
			cause.Advice = "abort, or promote with override: true, which takes a reason and permission to create rollouts/override"
		}
		out = append(out, cause)
	}
	return out
}

// counts are the numbers of a check.
func counts(c rollouts.CheckStatus) string {
	var text strings.Builder
	for _, of := range []struct {
		whose string
		n     *rollouts.RequestCount
	}{{"new", c.New}, {"old", c.Old}} {
		if of.n != nil {
			fmt.Fprintf(&text, "; of %d requests to the %s version %d were bad", of.n.Total, of.whose, of.n.Bad)
		}
	}
	return text.String()
}

func workload(r *rollouts.Rollout) []rollouts.ObjectRef {
	if r.Spec.WorkloadRef == nil {
		return nil
	}
	return []rollouts.ObjectRef{*r.Spec.WorkloadRef}
}

// network are the Service and the routers that a plan names.
func network(r *rollouts.Rollout) []rollouts.ObjectRef {
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

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

var errNothingChanged = errors.New("cancelled; nothing was changed")

// run sends the verb for each Rollout. A failure does not stop the others.
func (d *verbCommand) run(ctx context.Context, args []string) error {
	if err := checkDryRun(d.dryRun); err != nil {
		return err
	}
	if d.reasonGiven() && strings.TrimSpace(d.reason) == "" {
		return errors.New("--reason is blank; give a reason or leave --reason out")
	}
	s, err := d.connect()
	if err != nil {
		return err
	}
	targets, err := s.findAll(ctx, args, d.selector)
	if err != nil {
		return err
	}
	var failed []error
	for _, t := range targets {
		if err := d.decide(ctx, t); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", t.name, err))
		}
	}
	return errors.Join(failed...)
}

// decide reads what the verb would do, tells the user, and sends the verb.
func (d *verbCommand) decide(ctx context.Context, t *target) error {
	why, err := d.readActions(ctx, t)
	if err != nil {
		return err
	}
	if d.verb == "rollback" && why.Release == nil && why.State == "AtRest" {
		return d.undo(ctx, t)
	}
	action, err := findAction(why, d.verb, d.full)
	if err != nil {
		return err
	}
	if text := action.Title; text != "" {
		if effect := draw.Effect(action); effect != "" {
			text += ". " + strings.ToUpper(effect[:1]) + effect[1:]
		}
		d.printNote("%s: %s", t.name, text)
	}
	if err := d.askMissingFields(action); err != nil {
		return err
	}
	if d.continuesRelease && !d.yes && !d.confirmFindings(ctx, t, action) {
		return errNothingChanged
	}
	raw, err := d.sendVerb(ctx, t, action)
	if err != nil {
		return err
	}
	return d.showOutput(d.output, raw, func(draw.Screen) string {
		if d.dryRun == "server" {
			return fmt.Sprintf("%s: %s accepted (server dry run)\n", resourceName(t.name), d.verb)
		}
		return fmt.Sprintf("%s: %s accepted\n", resourceName(t.name), d.verb)
	})
}

// undo goes back to the version before the latest release, which is over. It changes the workload like the command undo,
// so that a script must confirm it with --yes.
func (d *verbCommand) undo(ctx context.Context, t *target) error {
	if !d.yes && !d.canAsk() && d.dryRun != "server" {
		command := append([]string{"kubectl weir undo", t.name, "-n", t.namespace}, d.screen().Flags...)
		return fmt.Errorf("no release is in progress; to go back to the version before the latest release, add --yes, or use: %s", strings.Join(command, " "))
	}
	d.printNote("%s: No release is in progress. This goes back to the version before the latest release, as a new release.", t.name)
	if d.reason != "" {
		d.printNote("Warning: %s: The reason is not recorded: a new release of an earlier version is a change of the workload, and not a decision.", t.name)
	}
	c := &changeCommand{app: d.app, yes: d.yes, dryRun: d.dryRun}
	return c.undo(ctx, t)
}

// resourceName returns the name of a Rollout in the format of kubectl.
func resourceName(name string) string { return "rollout." + v1beta1.GroupName + "/" + name }

// readActions reads the possible actions. If the user may not read them, or the server is older, it returns an
// action that is assumed to be possible.
func (d *verbCommand) readActions(ctx context.Context, t *target) (*v1beta1.RolloutWhy, error) {
	why, err := read[v1beta1.RolloutWhy](ctx, t, "why")
	if !isUnserved(err) && !apierrors.IsForbidden(err) {
		return &why.value, err
	}
	d.printNote("Could not preview the result: %s", err)
	open := v1beta1.Action{Verb: d.verb, Possible: true, Allowed: true, Path: "namespaces/" + t.namespace + "/rollouts/" + t.name + "/" + d.verb}
	if d.full {
		open.Body = runtime.RawExtension{Raw: []byte(`{"full":true}`)}
	}
	return &v1beta1.RolloutWhy{Actions: []v1beta1.Action{open}}, nil
}

// findAction returns the action of a verb, or an error if the action is not possible or not permitted.
func findAction(why *v1beta1.RolloutWhy, verb string, full bool) (*v1beta1.Action, error) {
	var known []string
	for i := range why.Actions {
		a := &why.Actions[i]
		known = append(known, a.Verb)
		switch {
		case a.Verb != verb || draw.IsFull(a) != full:
		case !a.Possible:
			return nil, fmt.Errorf("%s is not possible now: %s", verb, a.Reason)
		case !a.Allowed:
			return nil, errors.New("forbidden: " + draw.Forbidden(a, why.Namespace))
		default:
			return a, nil
		}
	}
	return nil, fmt.Errorf("the server does not support %s; it supports %s", verb, strings.Join(slices.Compact(known), ", "))
}

// askMissingFields asks the user for fields that the body needs.
func (d *verbCommand) askMissingFields(a *v1beta1.Action) error {
	needs := func(field string, given bool) bool { return slices.Contains(a.Needs, field) && !given }
	switch {
	case needs("override", d.override):
		return fmt.Errorf("checks have not passed: %s; to %s anyway, add --override --reason '…'", a.Reason, a.Verb)
	case needs("step", d.step > 0):
		return fmt.Errorf("missing --step: %s needs the number of a step", a.Verb)
	}
	if !needs("reason", d.reason != "") && (!d.override || d.reason != "") {
		return nil
	}
	if d.yes || !d.canAsk() {
		return fmt.Errorf("missing --reason: %s needs a reason here", a.Verb)
	}
	d.reason = d.askLine("Reason: ")
	return nil
}

// confirmFindings shows the errors of the plan and asks the user to confirm. Without a plan, it does not ask.
func (d *verbCommand) confirmFindings(ctx context.Context, t *target, a *v1beta1.Action) bool {
	plan, err := t.requestPlan(ctx, v1beta1.PlanSpec{After: &v1beta1.AfterVerb{Verb: d.verb, Step: d.step, Full: d.full, Override: d.override}})
	if err != nil || !draw.HasErrors(&plan.value) || isRefused(&plan.value) {
		return true // the answer to a verb that the server refuses has the reason
	}
	s := d.screen()
	fmt.Fprint(d.ErrOut, s.Finish(s.Findings(&plan.value)))
	return !d.canAsk() || d.confirm(a.Title+" anyway?")
}

// isRefused reports whether the plan says that the server would refuse the verb.
func isRefused(p *v1beta1.RolloutPlan) bool {
	return slices.ContainsFunc(p.Status.Findings, func(f v1beta1.Finding) bool { return f.Code == "verb" && f.Severity == "Error" })
}

// newBody returns the body that the server has prepared, with the fields of the user.
func (d *verbCommand) newBody(a *v1beta1.Action) ([]byte, error) {
	body := map[string]any{}
	if len(a.Body.Raw) > 0 {
		if err := json.Unmarshal(a.Body.Raw, &body); err != nil {
			return nil, fmt.Errorf("reading the body of %s: %w", a.Verb, err)
		}
	}
	body["requestID"] = uuid.NewString()
	if d.reason != "" {
		body["reason"] = d.reason
	}
	if d.full {
		body["full"] = true
	}
	if d.override {
		body["override"] = true
	}
	if d.step > 0 {
		body["step"] = d.step
	}
	return json.Marshal(body)
}

// maxAttempts is how often a request is sent if its response is lost.
const maxAttempts = 5

// sendVerb sends a verb. It repeats the request if the response is lost; the requestID makes the server apply
// the verb only once.
func (d *verbCommand) sendVerb(ctx context.Context, t *target, a *v1beta1.Action) ([]byte, error) {
	body, err := d.newBody(a)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		r := t.rest.Post().AbsPath(apiPath+a.Path).SetHeader("Content-Type", "application/json").Body(body)
		if d.dryRun == "server" {
			r = r.Param("dryRun", "All")
		}
		raw, err := send(ctx, r)
		if err == nil || !isLost(err) || try == maxAttempts || ctx.Err() != nil {
			return raw, err
		}
		d.printNote("%s; retrying", errorText(err))
		d.sleep(ctx, time.Duration(try)*time.Second)
	}
}

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

var errNothing = errors.New("nothing was changed")

// run decides about each Rollout; one that fails does not stop the others.
func (d *decision) run(ctx context.Context, args []string) error {
	if err := checkDryRun(d.dryRun); err != nil {
		return err
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

// decide looks, says what happens, and sends the verb.
func (d *decision) decide(ctx context.Context, t *target) error {
	why, err := d.why(ctx, t)
	if err != nil {
		return err
	}
	action, err := choose(why, d.verb, d.full)
	if err != nil {
		return err
	}
	if text := strings.TrimSuffix(action.Title+": "+draw.Effect(action), ": "); text != "" {
		d.note("%s: %s", t.name, text)
	}
	if err := d.supply(action); err != nil {
		return err
	}
	if d.on && !d.yes && !d.agree(ctx, t, action) {
		return errNothing
	}
	raw, err := d.send(ctx, t, action)
	if err != nil {
		return err
	}
	return d.show(d.output, raw, func(draw.Screen) string {
		if d.dryRun == "server" {
			return fmt.Sprintf("%s: %s accepted (server dry run)\n", fullName(t.name), d.verb)
		}
		return fmt.Sprintf("%s: %s accepted\n", fullName(t.name), d.verb)
	})
}

// fullName names a Rollout as kubectl does.
func fullName(name string) string { return "rollout." + v1beta1.GroupName + "/" + name }

// why asks what is possible. A user that may not know, and an older server, leave it open.
func (d *decision) why(ctx context.Context, t *target) (*v1beta1.RolloutWhy, error) {
	why, err := read[v1beta1.RolloutWhy](ctx, t, "why")
	if !unserved(err) && !apierrors.IsForbidden(err) {
		return &why.it, err
	}
	d.note("What happens is not known: %s", err)
	open := v1beta1.Action{Verb: d.verb, Possible: true, Allowed: true, Path: "namespaces/" + t.namespace + "/rollouts/" + t.name + "/" + d.verb}
	if d.full {
		open.Body = runtime.RawExtension{Raw: []byte(`{"full":true}`)}
	}
	return &v1beta1.RolloutWhy{Actions: []v1beta1.Action{open}}, nil
}

// choose finds the action of a verb, if it is possible and allowed.
func choose(why *v1beta1.RolloutWhy, verb string, full bool) (*v1beta1.Action, error) {
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
	return nil, fmt.Errorf("the server has no verb %s; it has %s", verb, strings.Join(slices.Compact(known), ", "))
}

// supply has the person add what the body needs.
func (d *decision) supply(a *v1beta1.Action) error {
	needs := func(field string, given bool) bool { return slices.Contains(a.Needs, field) && !given }
	switch {
	case needs("override", d.override):
		return errors.New("it takes --override and --reason: " + a.Reason)
	case needs("step", d.step > 0):
		return errors.New("say which step, by --step")
	}
	if !needs("reason", d.reason != "") && (!d.override || d.reason != "") {
		return nil
	}
	if d.yes || !d.asks() {
		return errors.New("say why, by --reason")
	}
	d.reason = d.ask("Why? ")
	return nil
}

// agree says which errors the plan has, and reports whether a person wants the verb all the
// same. The plan is a courtesy: without one, the verb is sent.
func (d *decision) agree(ctx context.Context, t *target, a *v1beta1.Action) bool {
	plan, err := t.forecast(ctx, v1beta1.PlanSpec{After: &v1beta1.AfterVerb{Verb: d.verb, Step: d.step, Full: d.full, Override: d.override}})
	if err != nil || !draw.HasErrors(&plan.it) {
		return true
	}
	s := d.screen()
	fmt.Fprint(d.ErrOut, s.Finish(s.Findings(&plan.it)))
	return !d.asks() || d.confirm(a.Title+" all the same?")
}

// body is what the server has prepared, with what the person adds.
func (d *decision) body(a *v1beta1.Action) ([]byte, error) {
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

// attempts is how often a request is sent whose answer was lost.
const attempts = 5

// send sends a verb, and again where no answer came: the requestID has it count once.
func (d *decision) send(ctx context.Context, t *target, a *v1beta1.Action) ([]byte, error) {
	body, err := d.body(a)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		r := t.rest.Post().AbsPath(apiPath+a.Path).SetHeader("Content-Type", "application/json").Body(body)
		if d.dryRun == "server" {
			r = r.Param("dryRun", "All")
		}
		raw, err := send(ctx, r)
		if err == nil || !isLost(err) || try == attempts || ctx.Err() != nil {
			return raw, err
		}
		d.note("%s; asking again", said(err))
		d.sleep(ctx, time.Duration(try)*time.Second)
	}
}

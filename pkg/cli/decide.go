// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
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
	names, err := s.names(ctx, args, d.selector)
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		if err := d.decide(ctx, s, name); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

// decide looks, says what happens, and sends the verb.
func (d *decision) decide(ctx context.Context, s *server, name string) error {
	why, err := d.why(ctx, s, name)
	if err != nil {
		return err
	}
	action, err := choose(why, d.verb, d.full)
	if err != nil {
		return err
	}
	if text := sentence(action); text != "" {
		fmt.Fprintf(d.ErrOut, "%s: %s\n", name, text)
	}
	if err := d.complete(ctx, s, name, action); err != nil {
		return err
	}
	body, err := d.body(action)
	if err != nil {
		return err
	}
	raw, err := d.send(ctx, s, action.Path, body)
	switch {
	case err != nil:
		return err
	case !d.drawn():
		return d.print(d.Out, raw)
	case d.dryRun != "none":
		fmt.Fprintf(d.Out, "%s: %s accepted (server dry run)\n", fullName(name), d.verb)
	default:
		fmt.Fprintf(d.Out, "%s: %s accepted\n", fullName(name), d.verb)
	}
	return nil
}

// why asks what is possible. A user that may not know, and an older server, leave it open.
func (d *decision) why(ctx context.Context, s *server, name string) (*v1beta1.RolloutWhy, error) {
	why, err := read[v1beta1.RolloutWhy](ctx, s, name, "why")
	if unserved(err) || apierrors.IsForbidden(err) {
		fmt.Fprintf(d.ErrOut, "What happens is not known: %s\n", plain(err.Error()))
		why.it.Actions = []v1beta1.Action{{
			Verb: d.verb, Possible: true, Allowed: true, Path: "namespaces/" + s.namespace + "/rollouts/" + name + "/" + d.verb,
		}}
		if d.full {
			why.it.Actions[0].Body.Raw = []byte(`{"full":true}`)
		}
		err = nil
	}
	return &why.it, err
}

// choose finds the action of a verb, if it is possible and allowed.
func choose(why *v1beta1.RolloutWhy, verb string, full bool) (*v1beta1.Action, error) {
	var known []string
	for i := range why.Actions {
		a := &why.Actions[i]
		known = append(known, a.Verb)
		switch {
		case a.Verb != verb || isFull(a) != full:
		case !a.Possible:
			return nil, fmt.Errorf("%s is not possible now: %s", verb, a.Reason)
		case !a.Allowed:
			return nil, fmt.Errorf("forbidden: you may not create rollouts/%s in namespace %s", verb, why.Namespace)
		default:
			return a, nil
		}
	}
	return nil, fmt.Errorf("the server has no verb %s; it has %s", verb, strings.Join(slices.Compact(known), ", "))
}

// isFull reports whether an action approves every further step.
func isFull(a *v1beta1.Action) bool {
	var body struct {
		Full bool `json:"full"`
	}
	return json.Unmarshal(a.Body.Raw, &body) == nil && body.Full
}

func sentence(a *v1beta1.Action) string {
	return strings.TrimSuffix(a.Title+": "+effect(a), ": ")
}

// complete has the person add what is needed, and confirm what the plan doubts.
func (d *decision) complete(ctx context.Context, s *server, name string, a *v1beta1.Action) error {
	if err := d.supply(a); err != nil {
		return err
	}
	if !d.on || d.yes {
		return nil
	}
	after := &v1beta1.AfterVerb{Verb: d.verb, Step: d.step, Full: d.full}
	plan, err := s.forecast(ctx, name, v1beta1.PlanSpec{After: after})
	if err == nil && hasErrors(&plan.it) { // the plan is a courtesy
		fmt.Fprint(d.ErrOut, d.screen().findings(&plan.it))
		if d.asks() && !d.confirm(a.Title+" all the same?") {
			return errNothing
		}
	}
	return nil
}

// supply has the person add what the body needs.
func (d *decision) supply(a *v1beta1.Action) error {
	needs := func(field string, given bool) bool { return slices.Contains(a.Needs, field) && !given }
	switch {
	case needs("override", d.override):
		return errors.New("it takes --override and --reason: " + a.Reason)
	case needs("step", d.step > 0):
		return errors.New("say which step, by --step")
	case needs("reason", d.reason != "") && (d.yes || !d.asks()):
		return errors.New("say why, by --reason")
	case needs("reason", d.reason != ""):
		d.reason = d.ask("Why? ")
	}
	return nil
}

// body is what the server has prepared, with what the person adds.
func (d *decision) body(a *v1beta1.Action) (map[string]any, error) {
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
	return body, nil
}

// attempts is how often a request is sent whose answer was lost.
const attempts = 5

// send sends a verb, and again where no answer came: the requestID has it count once.
func (d *decision) send(ctx context.Context, s *server, path string, body map[string]any) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		r := s.rest.Post().AbsPath(apiPath+path).SetHeader("Content-Type", "application/json").Body(data)
		if d.dryRun == "server" {
			r = r.Param("dryRun", "All")
		}
		raw, err := sent(ctx, r)
		if err == nil || !isLost(err) || try == attempts || ctx.Err() != nil {
			return raw, err
		}
		fmt.Fprintf(d.ErrOut, "No answer (%s); asking again.\n", plain(err.Error()))
		d.pause(ctx, time.Duration(try)*time.Second)
	}
}

// pause waits, unless the caller ends it.
func (a *app) pause(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-a.clock.After(long):
	}
}

// isLost reports whether the request may have been carried out, or may be sent again.
func isLost(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= 500 || status.Status().Code == 429
}

// ask asks a person for a line.
func (a *app) ask(question string) string {
	fmt.Fprint(a.ErrOut, question)
	line, _ := bufio.NewReader(a.In).ReadString('\n') // at the end of the input it is empty
	return strings.TrimSpace(line)
}

func (a *app) confirm(question string) bool {
	return strings.HasPrefix(strings.ToLower(a.ask(question+" [y/N] ")), "y")
}

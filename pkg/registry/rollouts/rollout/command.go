// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/decisions"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/storagefull"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/view"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// command is a verb: its name, its body, and what of the body is its own.
type command struct {
	verb    rollouts.Verb
	kind    string
	newBody func() body
	own     func(body body, c *verb.Command)
	// title is what a button would say, at the step under way; nil for the name.
	title func(step int32) string
	// full is the other way to use it; nil if there is none.
	full func(body) (title string)
}

// body is what every verb is sent.
type body interface {
	runtime.Object
	metav1.Object
	Common() *rollouts.DecisionOptions
}

// commands is the table of verbs that the server serves.
var commands = []command{
	{
		verb: rollouts.VerbPromote, kind: "PromoteOptions", newBody: func() body { return &rollouts.PromoteOptions{} },
		own: func(b body, c *verb.Command) {
			c.Full, c.Override = b.(*rollouts.PromoteOptions).Full, b.(*rollouts.PromoteOptions).Override
		},
		title: func(step int32) string {
			if step == 0 {
				return "Promote"
			}
			return fmt.Sprintf("Promote step %d", step)
		},
		full: func(b body) string {
			b.(*rollouts.PromoteOptions).Full = true
			return "Promote every further step"
		},
	},
	{verb: rollouts.VerbAbort, kind: "AbortOptions", newBody: func() body { return &rollouts.AbortOptions{} }},
	{verb: rollouts.VerbRollback, kind: "RollbackOptions", newBody: func() body { return &rollouts.RollbackOptions{} }, title: called("Roll back")},
	{
		verb: rollouts.VerbRetry, kind: "RetryOptions", newBody: func() body { return &rollouts.RetryOptions{} },
		own: func(b body, c *verb.Command) { c.Override = b.(*rollouts.RetryOptions).Override },
	},
	{verb: rollouts.VerbPause, kind: "PauseOptions", newBody: func() body { return &rollouts.PauseOptions{} }},
	{verb: rollouts.VerbResume, kind: "ResumeOptions", newBody: func() body { return &rollouts.ResumeOptions{} }},
	{
		verb: rollouts.VerbJump, kind: "JumpOptions", newBody: func() body { return &rollouts.JumpOptions{} },
		own: func(b body, c *verb.Command) {
			c.Step, c.Override = b.(*rollouts.JumpOptions).Step, b.(*rollouts.JumpOptions).Override
		},
		title: called("Jump to a step"),
	},
}

func called(title string) func(int32) string { return func(int32) string { return title } }

// Uses are the ways to use the verbs, in the order of the table.
func Uses() []view.Use {
	var uses []view.Use
	for _, c := range commands {
		title := c.title
		if title == nil {
			title = called(strings.ToUpper(string(c.verb[:1])) + string(c.verb[1:]))
		}
		uses = append(uses, c.use(title, c.newBody))
		if c.full != nil {
			uses = append(uses, c.use(called(c.full(c.newBody())), func() body {
				b := c.newBody()
				c.full(b)
				return b
			}))
		}
	}
	return uses
}

func (c command) use(title func(int32) string, newBody func() body) view.Use {
	return view.Use{
		Verb: c.verb, Title: title,
		Body: func(expect *rollouts.Expectation) runtime.Object {
			b := newBody()
			b.Common().Expect = expect
			return b
		},
		Command: func(sent runtime.Object) verb.Command {
			return c.command(verb.Command{Verb: c.verb, Via: rollouts.ViaVerb}, sent.(body))
		},
	}
}

// command adds to a command what its body asks for.
func (c command) command(asked verb.Command, sent body) verb.Command {
	asked.Options = *sent.Common()
	if c.own != nil {
		c.own(sent, &asked)
	}
	return asked
}

// BodyOf is the kind of body that a verb, or a question, is sent; empty if there is none such.
func BodyOf(verb string) string {
	if verb == view.Plan {
		return "RolloutPlan"
	}
	for _, c := range commands {
		if string(c.verb) == verb {
			return c.kind
		}
	}
	return ""
}

// Verbs are those that there are, in order.
func Verbs() []string {
	var verbs []string
	for _, c := range commands {
		verbs = append(verbs, string(c.verb))
	}
	slices.Sort(verbs)
	return verbs
}

// commandStrategy lets a verb change the status and nothing else.
type commandStrategy struct{ statusStrategy }

// ValidateUpdate has nothing to add: the planner has decided.
func (commandStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}

// CommandREST serves one verb of Rollouts: POST …/rollouts/{name}/{verb}.
type CommandREST struct {
	command
	store       *registry.Store
	permissions permissions
	earlier     *decisions.Earlier
	maker       commandMaker
	// answer is a Rollout of the version served, for documentation.
	answer any
}

var (
	_ rest.NamedCreater    = (*CommandREST)(nil)
	_ rest.StorageMetadata = (*CommandREST)(nil)
)

// New implements rest.Storage: the body of a request.
func (c *CommandREST) New() runtime.Object { return c.newBody() }

// Destroy implements rest.Storage; the store is shared and destroyed once.
func (c *CommandREST) Destroy() {}

// ProducesObject implements rest.StorageMetadata: the answer is the Rollout.
func (c *CommandREST) ProducesObject(string) any { return c.answer }

// ProducesMIMETypes implements rest.StorageMetadata.
func (c *CommandREST) ProducesMIMETypes(string) []string { return nil }

// Create implements rest.NamedCreater. The planner decides about the Rollout as
// it is stored at that moment; of two requests at once the second sees what the
// first has done.
func (c *CommandREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	sent := obj.(body)
	if err := c.validate(ctx, name, sent, validate); err != nil {
		return nil, err
	}
	asked := c.command.command(c.maker.command(ctx, c.verb, rollouts.ViaVerb), sent)
	if err := c.mayOverride(ctx, name, asked); err != nil {
		return nil, err
	}

	var warn string
	ctx, tried := withAttempt(ctx)
	settle := func(_ context.Context, _, stored runtime.Object) (runtime.Object, error) {
		r := stored.DeepCopyObject().(*rollouts.Rollout)
		r.Status.Fit()
		var err error
		if asked.NeedsEarlier(&r.Status) {
			if asked.Earlier, err = c.earlier.Of(ctx, r); err != nil {
				return nil, err
			}
		}
		irreversible := planner.Irreversible(r, asked.Verb)
		if warn, err = decide(ctx, r, asked); err != nil {
			return nil, refused(c.kind, name, field.NewPath("step"), err)
		}
		warn = cmp.Or(warn, irreversible)
		return r, nil
	}
	out, _, err := c.store.Update(ctx, name, rest.DefaultUpdatedObjectInfo(nil, settle),
		rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{DryRun: options.DryRun})
	tried.recordOutcome(ctx, name, dryrun.IsDryRun(options.DryRun), err)
	if err != nil {
		return nil, err
	}
	if warn != "" {
		warning.AddWarning(ctx, "", warn)
	}
	return out, nil
}

// mayOverride refuses an override without a reason, and from users who may not.
func (c *CommandREST) mayOverride(ctx context.Context, name string, asked verb.Command) error {
	if !asked.Override {
		return nil
	}
	if asked.Options.Reason == "" {
		return apierrors.NewInvalid(rollouts.Kind(c.kind), name, field.ErrorList{field.Required(field.NewPath("reason"), "say why the checks are overridden")})
	}
	allowed, err := c.permissions.may(ctx, "create", "override", name)
	if err != nil || allowed {
		return err
	}
	return apierrors.NewForbidden(rollouts.Resource("rollouts/"+string(c.verb)), name, fmt.Errorf(
		"override needs permission to create rollouts/override in namespace %q, which user %q does not have", genericapirequest.NamespaceValue(ctx), userName(ctx)))
}

// EmptyExpect refuses an expectation that expects nothing.
const EmptyExpect = "expect is empty; name what you saw in it, such as step and updateTemplate, or leave it out"

func (c *CommandREST) validate(ctx context.Context, name string, sent body, validate rest.ValidateObjectFunc) error {
	if named := sent.GetName(); named != "" && named != name {
		return apierrors.NewBadRequest(fmt.Sprintf("metadata.name %q of the body is not the rollout of the request, %q", named, name))
	}
	if e := sent.Common().Expect; e != nil && *e == (rollouts.Expectation{}) {
		return apierrors.NewBadRequest(EmptyExpect)
	}
	if errs := validation.ValidateDecisionOptions(sent.Common()); len(errs) > 0 {
		return apierrors.NewInvalid(rollouts.Kind(c.kind), name, errs)
	}
	return validate(ctx, sent.DeepCopyObject())
}

// commandMaker makes commands of requests.
type commandMaker struct {
	clock clock.PassiveClock
	// room knows how much of a decision the store has room for; nil if there is always enough.
	room storagefull.Room
}

// command returns the command of a request: who asks, with what, and when.
func (m commandMaker) command(ctx context.Context, v rollouts.Verb, via rollouts.Via) verb.Command {
	asked := verb.Command{
		Verb: v, Via: via, UserAgent: userAgent(ctx),
		Now: metav1.NewTime(m.clock.Now()),
	}
	if m.room != nil {
		space, full := m.room.Space(ctx, genericapirequest.NamespaceValue(ctx))
		if full != nil {
			asked.Shortage = full.Error()
		}
		asked.Replace = space == storagefull.Exhausted
	}
	if who, ok := genericapirequest.UserFrom(ctx); ok {
		asked.User, asked.UID = rollouts.Clean(who.GetName(), rollouts.MaxUser), rollouts.Clean(who.GetUID(), rollouts.MaxUser)
	}
	return asked
}

// refused answers what the planner does not do. The path is where the request
// named the step, should the plan not have it.
func refused(kind, name string, path *field.Path, err error) error {
	if refusal, ok := errors.AsType[*verb.Refusal](err); ok {
		return apierrors.NewConflict(rollouts.Resource("rollouts"), name, refusal)
	}
	if invalid, ok := errors.AsType[*verb.Invalid](err); ok && invalid.Step == 0 {
		return apierrors.NewInvalid(rollouts.Kind(kind), name, field.ErrorList{field.Required(path, invalid.Why)})
	} else if ok {
		return apierrors.NewInvalid(rollouts.Kind(kind), name, field.ErrorList{field.Invalid(path, invalid.Step, invalid.Why)})
	}
	return apierrors.NewInternalError(fmt.Errorf("deciding: %w", err))
}

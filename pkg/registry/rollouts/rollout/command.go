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

// command describes a verb: its name, its body, and the options that only this verb has.
type command struct {
	verb       rollouts.Verb
	kind       string
	newBody    func() body
	setOptions func(body body, c *verb.Command)
	// title returns the label of a button at the given step; nil for the capitalized verb.
	title func(step int32) string
	// setFull sets the option for a second use of the verb, and returns its label; nil if there is no second
	// use.
	setFull func(body) (title string)
}

// body is the request body of a verb.
type body interface {
	runtime.Object
	metav1.Object
	Common() *rollouts.DecisionOptions
}

// commands lists the verbs that the server serves.
var commands = []command{
	{
		verb: rollouts.VerbPromote, kind: "PromoteOptions", newBody: func() body { return &rollouts.PromoteOptions{} },
		setOptions: func(b body, c *verb.Command) {
			c.Full, c.Override = b.(*rollouts.PromoteOptions).Full, b.(*rollouts.PromoteOptions).Override
		},
		title: func(step int32) string {
			if step == 0 {
				return "Promote"
			}
			return fmt.Sprintf("Promote step %d", step)
		},
		setFull: func(b body) string {
			b.(*rollouts.PromoteOptions).Full = true
			return "Approve all remaining steps"
		},
	},
	{verb: rollouts.VerbAbort, kind: "AbortOptions", newBody: func() body { return &rollouts.AbortOptions{} }},
	{verb: rollouts.VerbRollback, kind: "RollbackOptions", newBody: func() body { return &rollouts.RollbackOptions{} }, title: fixedTitle("Roll back")},
	{
		verb: rollouts.VerbRetry, kind: "RetryOptions", newBody: func() body { return &rollouts.RetryOptions{} },
		setOptions: func(b body, c *verb.Command) { c.Override = b.(*rollouts.RetryOptions).Override },
	},
	{verb: rollouts.VerbPause, kind: "PauseOptions", newBody: func() body { return &rollouts.PauseOptions{} }},
	{verb: rollouts.VerbResume, kind: "ResumeOptions", newBody: func() body { return &rollouts.ResumeOptions{} }},
	{
		verb: rollouts.VerbJump, kind: "JumpOptions", newBody: func() body { return &rollouts.JumpOptions{} },
		setOptions: func(b body, c *verb.Command) {
			c.Step, c.Override = b.(*rollouts.JumpOptions).Step, b.(*rollouts.JumpOptions).Override
		},
		title: fixedTitle("Jump to a step"),
	},
}

func fixedTitle(title string) func(int32) string { return func(int32) string { return title } }

// VerbUses returns all uses of the verbs, in the order of commands. The use that approves all remaining steps is the
// last one, so that no client shows it first.
func VerbUses() []view.VerbUse {
	var uses, full []view.VerbUse
	for _, c := range commands {
		title := c.title
		if title == nil {
			title = fixedTitle(strings.ToUpper(string(c.verb[:1])) + string(c.verb[1:]))
		}
		uses = append(uses, c.newUse(title, c.newBody))
		if c.setFull != nil {
			full = append(full, c.newUse(fixedTitle(c.setFull(c.newBody())), func() body {
				b := c.newBody()
				c.setFull(b)
				return b
			}))
		}
	}
	return append(uses, full...)
}

func (c command) newUse(title func(int32) string, newBody func() body) view.VerbUse {
	return view.VerbUse{
		Verb: c.verb, Title: title,
		Body: func(expect *rollouts.Expectation) runtime.Object {
			b := newBody()
			b.Common().Expect = expect
			return b
		},
		Command: func(sent runtime.Object) verb.Command {
			return c.withBody(verb.Command{Verb: c.verb, Via: rollouts.ViaVerb}, sent.(body))
		},
	}
}

// withBody adds the options of the body to a command.
func (c command) withBody(asked verb.Command, sent body) verb.Command {
	asked.Options = *sent.Common()
	if c.setOptions != nil {
		c.setOptions(sent, &asked)
	}
	return asked
}

// BodyKind returns the kind of the request body of a verb or of the plan; empty for other names.
func BodyKind(verb string) string {
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

// VerbNames returns the names of all verbs in alphabetical order.
func VerbNames() []string {
	var verbs []string
	for _, c := range commands {
		verbs = append(verbs, string(c.verb))
	}
	slices.Sort(verbs)
	return verbs
}

// commandStrategy is the update strategy of verbs, which change only the status.
type commandStrategy struct{ statusStrategy }

// ValidateUpdate returns no errors: the package verb has validated the change.
func (commandStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}

// CommandREST serves one verb of Rollouts: POST …/rollouts/{name}/{verb}.
type CommandREST struct {
	command
	store       *registry.Store
	permissions permissions
	earlier     *decisions.EarlierStore
	maker       commandMaker
	// response is a Rollout of the served version, for the OpenAPI document.
	response any
}

var (
	_ rest.NamedCreater    = (*CommandREST)(nil)
	_ rest.StorageMetadata = (*CommandREST)(nil)
)

// New implements rest.Storage. It returns an empty request body.
func (c *CommandREST) New() runtime.Object { return c.newBody() }

// Destroy implements rest.Storage; the store is shared and destroyed once.
func (c *CommandREST) Destroy() {}

// ProducesObject implements rest.StorageMetadata. The response of a verb is the Rollout.
func (c *CommandREST) ProducesObject(string) any { return c.response }

// ProducesMIMETypes implements rest.StorageMetadata.
func (c *CommandREST) ProducesMIMETypes(string) []string { return nil }

// Create implements rest.NamedCreater. It applies the verb to the Rollout that is stored at that moment. Of
// two concurrent requests, the second one sees the result of the first.
func (c *CommandREST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	sent := obj.(body)
	if err := c.validateBody(ctx, name, sent, validate); err != nil {
		return nil, err
	}
	asked := c.command.withBody(c.maker.newCommand(ctx, c.verb, rollouts.ViaVerb), sent)
	if err := c.checkOverride(ctx, name, asked); err != nil {
		return nil, err
	}

	var warn string
	ctx, tried := withAttempt(ctx)
	settle := func(_ context.Context, _, stored runtime.Object) (runtime.Object, error) {
		r := stored.DeepCopyObject().(*rollouts.Rollout)
		r.Status.Fit()
		var err error
		if asked.NeedsEarlier(&r.Status) {
			if asked.Earlier, err = c.earlier.List(ctx, r); err != nil {
				return nil, err
			}
		}
		irreversible := planner.IrreversibleReason(r, asked.Verb)
		if warn, err = applyVerb(ctx, r, asked); err != nil {
			return nil, toAPIError(c.kind, name, field.NewPath("step"), err)
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

// checkOverride refuses an override without a reason, or from a user without permission.
func (c *CommandREST) checkOverride(ctx context.Context, name string, asked verb.Command) error {
	if !asked.Override {
		return nil
	}
	if asked.Options.Reason == "" {
		return apierrors.NewInvalid(rollouts.Kind(c.kind), name, field.ErrorList{field.Required(field.NewPath("reason"), "say why the checks are overridden")})
	}
	allowed, err := c.permissions.isAllowed(ctx, "create", "override", name)
	if err != nil || allowed {
		return err
	}
	return apierrors.NewForbidden(rollouts.Resource("rollouts/"+string(c.verb)), name, fmt.Errorf(
		"override needs permission to create rollouts/override in namespace %q, which user %q does not have", genericapirequest.NamespaceValue(ctx), userName(ctx)))
}

// EmptyExpect is the error message for an expectation without fields.
const EmptyExpect = "expect is empty; set step or updateTemplate to the values that you read, or omit expect"

func (c *CommandREST) validateBody(ctx context.Context, name string, sent body, validateBody rest.ValidateObjectFunc) error {
	if named := sent.GetName(); named != "" && named != name {
		return apierrors.NewBadRequest(fmt.Sprintf("metadata.name %q of the body is not the rollout of the request, %q", named, name))
	}
	if e := sent.Common().Expect; e != nil && *e == (rollouts.Expectation{}) {
		return apierrors.NewBadRequest(EmptyExpect)
	}
	if errs := validation.ValidateDecisionOptions(sent.Common()); len(errs) > 0 {
		return apierrors.NewInvalid(rollouts.Kind(c.kind), name, errs)
	}
	return validateBody(ctx, sent.DeepCopyObject())
}

// commandMaker creates commands from requests.
type commandMaker struct {
	clock clock.PassiveClock
	// room reports how much space the store has for a decision; nil if the space is unlimited.
	room storagefull.Room
}

// newCommand returns a command with the user, the user agent and the time of a request.
func (m commandMaker) newCommand(ctx context.Context, v rollouts.Verb, via rollouts.Via) verb.Command {
	asked := verb.Command{
		Verb: v, Via: via, UserAgent: userAgent(ctx),
		Now: metav1.NewTime(m.clock.Now()),
	}
	if m.room != nil {
		space, full := m.room.Space(ctx, genericapirequest.NamespaceValue(ctx))
		if full != nil {
			asked.Shortage = full.Error()
		}
		asked.ReplaceEarlier = space == storagefull.Exhausted
	}
	if who, ok := genericapirequest.UserFrom(ctx); ok {
		asked.User, asked.UID = rollouts.Clean(who.GetName(), rollouts.MaxUser), rollouts.Clean(who.GetUID(), rollouts.MaxUser)
	}
	return asked
}

// toAPIError converts an error of the package verb into an API error. path is the field of the request that
// named the step, for the case that the plan has no such step.
func toAPIError(kind, name string, path *field.Path, err error) error {
	if refusal, ok := errors.AsType[*verb.Refusal](err); ok {
		return apierrors.NewConflict(rollouts.Resource("rollouts"), name, refusal)
	}
	if invalid, ok := errors.AsType[*verb.InvalidStep](err); ok && invalid.Step == 0 {
		return apierrors.NewInvalid(rollouts.Kind(kind), name, field.ErrorList{field.Required(path, invalid.Message)})
	} else if ok {
		return apierrors.NewInvalid(rollouts.Kind(kind), name, field.ErrorList{field.Invalid(path, invalid.Step, invalid.Message)})
	}
	return apierrors.NewInternalError(fmt.Errorf("deciding: %w", err))
}

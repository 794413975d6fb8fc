// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// An annotation decides where a client can change objects and nothing else, as actions of
// Argo CD. It is never stored: VERB DIGEST [STEP | full] @ID.
var decideForm = regexp.MustCompile(`^([a-z]+) (\S+)(?: (\d{1,3}|full))? @(\S{1,62})$`)

var decidePath = field.NewPath("metadata", "annotations").Key(rollouts.AnnotationDecide)

// annotated decides what the annotation of an update asks for, and takes it off. One that
// is about another release, or that was acted upon, is ignored: it may be in a Git
// repository, and must break no later sync.
func (r *REST) annotated(ctx context.Context, next, stored *rollouts.Rollout) error {
	text := next.Annotations[rollouts.AnnotationDecide]
	delete(next.Annotations, rollouts.AnnotationDecide)
	if text == "" {
		return nil
	}
	asked, revision, err := parseDecide(ctx, text, r)
	if err != nil {
		return apierrors.NewInvalid(rollouts.Kind("Rollout"), stored.Name, field.ErrorList{field.Invalid(decidePath, rollouts.Clean(text, rollouts.MaxReason), err.Error())})
	}
	p := stored.Status.Active()
	if shortOf(p, revision) && p.State != rollouts.StepCompleted {
		before, err := r.decidedBefore(ctx, stored, asked)
		if err != nil {
			return err
		}
		if before {
			ignore(ctx, "Weir has acted upon it already")
			return nil
		}
		why := fmt.Sprintf("%s is a short hash, which another template may have as well; write its digest: %s", revision, strings.Replace(text, " "+revision+" ", " "+p.UpdateTemplate+" ", 1))
		return apierrors.NewInvalid(rollouts.Kind("Rollout"), stored.Name, field.ErrorList{field.Invalid(decidePath, rollouts.Clean(text, rollouts.MaxReason), why)})
	}
	if !about(p, revision) {
		ignore(ctx, "it is about revision "+revision+", which is not released now")
		return nil
	}
	if err := r.drivers.mustUse(ctx, "rollouts", stored.Name, "the annotation "+rollouts.AnnotationDecide, asked.Verb); err != nil {
		return err
	}
	return r.decideOnce(ctx, stored, asked)
}

// about reports whether a revision is that of the release. The digest of the template identifies
// the release. In the status that an earlier version of Weir stored, the digest may be missing; then
// the short hash does.
func about(p *rollouts.Progress, revision string) bool {
	if p == nil || p.UpdateTemplate != "" {
		return p != nil && revision == p.UpdateTemplate
	}
	return revision == p.UpdateRevision || revision == p.PodTemplateHash
}

// shortOf reports whether a revision is a short hash of the release, although the digest of the
// release is known.
func shortOf(p *rollouts.Progress, revision string) bool {
	return p != nil && p.UpdateTemplate != "" && revision != p.UpdateTemplate && (revision == p.UpdateRevision || revision == p.PodTemplateHash)
}

// decidedBefore reports whether Weir has already acted upon an annotation.
func (r *REST) decidedBefore(ctx context.Context, stored *rollouts.Rollout, asked verb.Command) (bool, error) {
	earlier, err := r.earlier.Of(ctx, stored)
	return slices.ContainsFunc(slices.Concat(earlier, stored.Status.Decisions), func(d rollouts.Decision) bool {
		return d.Verb == asked.Verb && d.Via == asked.Via && d.RequestID == asked.Options.RequestID
	}), err
}

// decideOnce decides, and has the write of the annotation store that, unless it was decided
// before or is not possible.
func (r *REST) decideOnce(ctx context.Context, stored *rollouts.Rollout, asked verb.Command) (err error) {
	decided := stored.DeepCopy()
	decided.Status.Fit()
	if asked.Earlier, err = r.earlier.Of(ctx, decided); err != nil {
		return err
	}
	warn, err := decide(ctx, decided, asked)
	if invalid, ok := errors.AsType[*verb.Invalid](err); ok {
		return refused("Rollout", stored.Name, decidePath, invalid)
	}
	if err != nil || warn != "" {
		forgetAttempt(ctx)
		if err != nil {
			warn = err.Error()
		}
		ignore(ctx, warn)
		return nil
	}
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		a.status = &decided.Status
	}
	return nil
}

func ignore(ctx context.Context, why string) {
	warning.AddWarning(ctx, "", "the annotation "+rollouts.AnnotationDecide+" is ignored: "+why)
}

// parseDecide reads an annotation. The number is the step that a jump goes to, and that any
// other verb expects.
func parseDecide(ctx context.Context, text string, r *REST) (asked verb.Command, revision string, err error) {
	m := decideForm.FindStringSubmatch(text)
	if m == nil || BodyOf(m[1]) == "" {
		return asked, "", fmt.Errorf("write VERB DIGEST [STEP] @ID, with the updateTemplate of the status and one of the verbs %v", Verbs())
	}
	asked = r.maker.command(ctx, rollouts.Verb(m[1]), rollouts.ViaAnnotation)
	asked.Options.RequestID = "@" + m[4]
	asked.Full = m[3] == "full"
	if asked.Full && asked.Verb != rollouts.VerbPromote {
		return asked, "", errors.New("full is for promote")
	}
	if n, err := strconv.ParseInt(m[3], 10, 32); err == nil {
		step := int32(n)
		if asked.Verb == rollouts.VerbJump {
			asked.Step = step
		} else {
			asked.Options.Expect = &rollouts.Expectation{Step: &step}
		}
	}
	return asked, m[2], nil
}

// recordAnnotated keeps in the write of the annotation what it has decided.
func recordAnnotated(ctx context.Context, r *rollouts.Rollout) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok && a.status != nil {
		r.Status = *a.status.DeepCopy()
	}
}

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

// decidePattern matches VERB DIGEST [STEP | full] @ID. The annotation is for clients that can change objects
// but cannot call subresources, for example actions of Argo CD. It is never stored.
var decidePattern = regexp.MustCompile(`^([a-z]+) (\S+)(?: (\d{1,3}|full))? @(\S{1,62})$`)

var decidePath = field.NewPath("metadata", "annotations").Key(rollouts.AnnotationDecide)

// applyDecideAnnotation applies the decision in the annotation of an update, and removes the annotation. An annotation
// about another release, or one that was already applied, is ignored with a warning: the manifest in a Git
// repository may still contain it, and later syncs must not fail.
func (r *REST) applyDecideAnnotation(ctx context.Context, next, stored *rollouts.Rollout) error {
	text := next.Annotations[rollouts.AnnotationDecide]
	delete(next.Annotations, rollouts.AnnotationDecide)
	if text == "" {
		return nil
	}
	asked, revision, err := parseDecideAnnotation(ctx, text, r)
	if err != nil {
		return apierrors.NewInvalid(rollouts.Kind("Rollout"), stored.Name, field.ErrorList{field.Invalid(decidePath, rollouts.Clean(text, rollouts.MaxReason), err.Error())})
	}
	p := stored.Status.Active()
	if isShortHash(p, revision) && p.State != rollouts.StepCompleted {
		before, err := r.wasDecidedBefore(ctx, stored, asked)
		if err != nil {
			return err
		}
		if before {
			warnIgnored(ctx, "Weir has acted upon it already")
			return nil
		}
		why := fmt.Sprintf("%s is a short hash, which another template may have as well; write its digest: %s", revision, strings.Replace(text, " "+revision+" ", " "+p.UpdateTemplate+" ", 1))
		return apierrors.NewInvalid(rollouts.Kind("Rollout"), stored.Name, field.ErrorList{field.Invalid(decidePath, rollouts.Clean(text, rollouts.MaxReason), why)})
	}
	if !isAboutRelease(p, revision) {
		warnIgnored(ctx, "it is about revision "+revision+", which is not released now")
		return nil
	}
	if err := r.access.checkVerb(ctx, "rollouts", stored.Name, "the annotation "+rollouts.AnnotationDecide, asked.Verb); err != nil {
		return err
	}
	return r.applyAnnotationDecision(ctx, stored, asked)
}

// isAboutRelease reports whether the revision identifies the current release. The digest of the template identifies
// a release. An earlier version of Weir may have stored a status without the digest; then the short hash
// identifies it.
func isAboutRelease(p *rollouts.Progress, revision string) bool {
	if p == nil || p.UpdateTemplate != "" {
		return p != nil && revision == p.UpdateTemplate
	}
	return revision == p.UpdateRevision || revision == p.PodTemplateHash
}

// isShortHash reports whether the revision is the short hash of a release whose digest is known.
func isShortHash(p *rollouts.Progress, revision string) bool {
	return p != nil && p.UpdateTemplate != "" && revision != p.UpdateTemplate && (revision == p.UpdateRevision || revision == p.PodTemplateHash)
}

// wasDecidedBefore reports whether the decision in an annotation was recorded before.
func (r *REST) wasDecidedBefore(ctx context.Context, stored *rollouts.Rollout, asked verb.Command) (bool, error) {
	earlier, err := r.earlier.List(ctx, stored)
	return slices.ContainsFunc(slices.Concat(earlier, stored.Status.Decisions), func(d rollouts.Decision) bool {
		return d.Verb == asked.Verb && d.Via == asked.Via && d.RequestID == asked.Options.RequestID
	}), err
}

// applyAnnotationDecision applies a decision, and stores the result in the same write as the rest of the update. A
// decision that is impossible, or was applied before, is ignored with a warning.
func (r *REST) applyAnnotationDecision(ctx context.Context, stored *rollouts.Rollout, asked verb.Command) (err error) {
	decided := stored.DeepCopy()
	decided.Status.Fit()
	if asked.Earlier, err = r.earlier.List(ctx, decided); err != nil {
		return err
	}
	warn, err := applyVerb(ctx, decided, asked)
	if invalid, ok := errors.AsType[*verb.InvalidStep](err); ok {
		return toAPIError("Rollout", stored.Name, decidePath, invalid)
	}
	if err != nil || warn != "" {
		clearAttempt(ctx)
		if err != nil {
			warn = err.Error()
		}
		warnIgnored(ctx, warn)
		return nil
	}
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		a.status = &decided.Status
	}
	return nil
}

func warnIgnored(ctx context.Context, why string) {
	warning.AddWarning(ctx, "", "the annotation "+rollouts.AnnotationDecide+" is ignored: "+why)
}

// parseDecideAnnotation parses an annotation. The number is the target step of a jump; for other verbs it is the step
// at which the client expects the release.
func parseDecideAnnotation(ctx context.Context, text string, r *REST) (asked verb.Command, revision string, err error) {
	m := decidePattern.FindStringSubmatch(text)
	if m == nil || BodyKind(m[1]) == "" {
		return asked, "", fmt.Errorf("write VERB DIGEST [STEP] @ID, with the updateTemplate of the status and one of the verbs %v", VerbNames())
	}
	asked = r.maker.newCommand(ctx, rollouts.Verb(m[1]), rollouts.ViaAnnotation)
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

// storeAnnotationDecision puts the result of the annotation's decision into the object that is stored.
func storeAnnotationDecision(ctx context.Context, r *rollouts.Rollout) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok && a.status != nil {
		r.Status = *a.status.DeepCopy()
	}
}

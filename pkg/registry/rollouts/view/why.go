// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/view"
	"github.com/weir-rollouts/weir/pkg/why"
)

// workloadTimeout limits the read of the workload.
const workloadTimeout = time.Second

// explainer explains Rollouts.
type explainer struct{ Config }

func (w explainer) explainByName(ctx context.Context, name string) (runtime.Object, error) {
	r, err := w.GetRollout(ctx, name)
	if err != nil {
		return nil, err
	}
	return w.explain(ctx, r)(ctx)
}

// explain explains a Rollout. It reads once what is the same for all users.
func (w explainer) explain(ctx context.Context, r *rollouts.Rollout) func(ctx context.Context) (*rollouts.RolloutWhy, error) {
	facts, source, err := w.gatherFacts(ctx, r)
	return func(ctx context.Context) (*rollouts.RolloutWhy, error) {
		if err != nil {
			return nil, err
		}
		out := why.Explain(r, facts)
		if out.Release != nil {
			out.Release.Source = source
		}
		var err error
		out.Actions, err = w.listActions(ctx, r, facts)
		return &out, err
	}
}

// gatherFacts reads the facts of an explanation, and what the owner says about the content of the release.
func (w explainer) gatherFacts(ctx context.Context, r *rollouts.Rollout) (f why.Facts, source *rollouts.ReleaseSource, err error) {
	f.Now = w.Clock.Now()
	var wg sync.WaitGroup
	var generation int64
	var deadline int32
	wg.Go(func() { generation, deadline = w.readWorkload(ctx, r) })
	f.Batch, err = w.getBatchRelease(ctx, r)
	if n := len(r.Status.Releases); err == nil && n > 0 && r.Status.Releases[n-1].EndTime == nil {
		var h *rollouts.RolloutHistory
		// Every user who may see the Rollout may see its images. So read the RolloutHistory as this
		// process, which may see the copies, instead of as the user.
		if h, err = getOwn[*rollouts.RolloutHistory](genericapirequest.WithUser(ctx, nil), w.Histories, planner.HistoryName(r, r.Status.Releases[n-1].Number)); h != nil {
			changes, _ := why.TemplateChanges(h)
			f.Images = why.ImageChanges(changes)
			source = h.Spec.Source.Cleaned()
		}
	}
	wg.Wait()
	f.Generation, f.ProgressDeadline = generation, deadline
	return f, source, err
}

// getBatchRelease returns the BatchRelease of a Rollout; nil if there is none.
func (w explainer) getBatchRelease(ctx context.Context, r *rollouts.Rollout) (*rollouts.BatchRelease, error) {
	b, err := getOwn[*rollouts.BatchRelease](ctx, w.Stores["BatchRelease"], r.Name)
	if err != nil || !planner.Owns(r, b) {
		return nil, err
	}
	return b, nil
}

// getOwn reads an object of one of Weir's kinds; nil if it does not exist.
func getOwn[T runtime.Object](ctx context.Context, from rest.Getter, name string) (T, error) {
	var none T
	obj, err := from.Get(ctx, name, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	return obj.(T), nil
}

// readWorkload reads the generation and the progress deadline of the workload; zero if they cannot be read.
func (w explainer) readWorkload(ctx context.Context, r *rollouts.Rollout) (generation int64, deadline int32) {
	ref := r.Spec.WorkloadRef
	if ref == nil {
		return 0, 0
	}
	ctx, cancel := context.WithTimeout(ctx, workloadTimeout)
	defer cancel()
	found, err := w.LiveReader(r.Namespace)(ctx, view.Read{Kind: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), Name: ref.Name})
	if err != nil || len(found) == 0 {
		return 0, 0
	}
	u, ok := found[0].(*unstructured.Unstructured)
	if !ok {
		return 0, 0
	}
	seconds, _, err := unstructured.NestedInt64(u.Object, "spec", "progressDeadlineSeconds")
	if err != nil {
		seconds = 0
	}
	return u.GetGeneration(), int32(seconds) //nolint:gosec // kube-apiserver bounds it
}

// isAllowed reports whether the user may use a verb on a Rollout.
func (w explainer) isAllowed(ctx context.Context, verb, subresource, name string) (bool, error) {
	err := w.CheckAccess(ctx, verb, subresource, name)
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	return err == nil, err
}

// listActions returns all uses of the verbs with the result of trying each.
func (w explainer) listActions(ctx context.Context, r *rollouts.Rollout, f why.Facts) ([]rollouts.Action, error) {
	allowed, err := w.allowedVerbs(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	var out []rollouts.Action
	for _, use := range w.Uses {
		body := use.Body(expectation(r))
		command := use.Command(body)
		command.Now = metav1.NewTime(f.Now)
		tried := why.TryVerb(r, command, f.Batch)
		raw, err := w.encodeBody(body, tried.RequiredFields)
		if err != nil {
			return nil, err
		}
		step := int32(0)
		if p := r.Status.Active(); p != nil && tried.Possible {
			step = p.CurrentStepIndex
		}
		a := rollouts.Action{
			Verb: string(use.Verb), Title: use.Title(step), Possible: tried.Possible, Allowed: allowed[string(use.Verb)], Reason: tried.Reason,
			Path: "namespaces/" + r.Namespace + "/rollouts/" + r.Name + "/" + string(use.Verb), Body: runtime.RawExtension{Raw: raw}, Needs: tried.RequiredFields,
		}
		overrides := slices.Contains(a.Needs, why.NeedsOverride)
		if use.Verb == rollouts.VerbJump && tried.Possible {
			a.OverrideFrom = planner.OverrideFrom(r)
		}
		if !a.Allowed {
			a.Missing = append(a.Missing, "rollouts/"+string(use.Verb))
		}
		if (overrides || a.OverrideFrom > 0) && !allowed["override"] {
			a.Allowed = a.Allowed && !overrides
			a.Missing = append(a.Missing, "rollouts/override")
		}
		out = append(out, a)
	}
	return out, nil
}

// allowedVerbs checks the permissions for all verbs in parallel.
func (w explainer) allowedVerbs(ctx context.Context, name string) (map[string]bool, error) {
	asked := []string{"override"}
	for _, use := range w.Uses {
		if !slices.Contains(asked, string(use.Verb)) {
			asked = append(asked, string(use.Verb))
		}
	}
	answers, errs := make([]bool, len(asked)), make([]error, len(asked))
	var wg sync.WaitGroup
	for i, verb := range asked {
		wg.Go(func() { answers[i], errs[i] = w.isAllowed(ctx, "create", verb, name) })
	}
	wg.Wait()
	allowed := map[string]bool{}
	for i, verb := range asked {
		if errs[i] != nil {
			return nil, errs[i]
		}
		allowed[verb] = answers[i]
	}
	return allowed, nil
}

// expectation returns what the response is based on, without fields that change with every pod.
func expectation(r *rollouts.Rollout) *rollouts.Expectation {
	want := &rollouts.Expectation{UID: r.UID}
	if p := r.Status.Active(); p != nil {
		want.Step, want.Revision, want.UpdateTemplate, want.Plan = new(p.CurrentStepIndex), p.UpdateRevision, p.UpdateTemplate, p.RolloutHash
	}
	return want
}

// encodeBody returns the wire format of a body, without the fields that a person adds.
func (w explainer) encodeBody(body runtime.Object, needs []string) ([]byte, error) {
	wire, err := w.Scheme.ConvertToVersion(body, v1beta1.SchemeGroupVersion)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("converting the body of a verb: %w", err))
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wire)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("encoding the body of a verb: %w", err))
	}
	for _, name := range append([]string{"metadata"}, needs...) {
		delete(fields, name)
	}
	return json.Marshal(fields)
}

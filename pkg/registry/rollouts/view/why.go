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

// lookTimeout bounds what is read of the workload for a why.
const lookTimeout = time.Second

// whys answers why.
type whys struct{ Config }

func (w whys) get(ctx context.Context, name string) (runtime.Object, error) {
	r, err := w.Rollout(ctx, name)
	if err != nil {
		return nil, err
	}
	return w.of(ctx, r)(ctx)
}

// of says it of a Rollout. What is the same for all callers is read once.
func (w whys) of(ctx context.Context, r *rollouts.Rollout) func(ctx context.Context) (*rollouts.RolloutWhy, error) {
	facts, err := w.facts(ctx, r)
	return func(ctx context.Context) (*rollouts.RolloutWhy, error) {
		if err != nil {
			return nil, err
		}
		out := why.Explain(r, facts)
		var err error
		out.Actions, err = w.actions(ctx, r, facts)
		return &out, err
	}
}

func (w whys) facts(ctx context.Context, r *rollouts.Rollout) (f why.Facts, err error) {
	f.Now = w.Clock.Now()
	var wg sync.WaitGroup
	var generation int64
	var deadline int32
	wg.Go(func() { generation, deadline = w.look(ctx, r) })
	f.Batch, err = w.batch(ctx, r)
	if n := len(r.Status.Releases); err == nil && n > 0 && r.Status.Releases[n-1].EndTime == nil {
		var h *rollouts.RolloutHistory
		// Everybody who may see the Rollout may see its images. So read the history as this
		// process, which may see the copies, instead of as the user.
		if h, err = read[*rollouts.RolloutHistory](genericapirequest.WithUser(ctx, nil), w.Histories, planner.HistoryName(r, r.Status.Releases[n-1].Number)); h != nil {
			changes, _ := why.TemplateChanges(h)
			f.Images = why.ImageChanges(changes)
		}
	}
	wg.Wait()
	f.Generation, f.ProgressDeadline = generation, deadline
	return f, err
}

// batch is the BatchRelease of a Rollout; nil if there is none.
func (w whys) batch(ctx context.Context, r *rollouts.Rollout) (*rollouts.BatchRelease, error) {
	b, err := read[*rollouts.BatchRelease](ctx, w.Stores["BatchRelease"], r.Name)
	if err != nil || !planner.Owns(r, b) {
		return nil, err
	}
	return b, nil
}

// read reads an object of our own; nil if it does not exist.
func read[T runtime.Object](ctx context.Context, from rest.Getter, name string) (T, error) {
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

// look reads how often the workload was changed, and its deadline; zero where it cannot.
func (w whys) look(ctx context.Context, r *rollouts.Rollout) (generation int64, deadline int32) {
	ref := r.Spec.WorkloadRef
	if ref == nil {
		return 0, 0
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	found, err := w.Live(r.Namespace)(ctx, view.Read{Kind: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), Name: ref.Name})
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

// may reports whether the caller may do something with a Rollout.
func (w whys) may(ctx context.Context, verb, subresource, name string) (bool, error) {
	err := w.Allowed(ctx, verb, subresource, name)
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	return err == nil, err
}

// actions are every use of a verb.
func (w whys) actions(ctx context.Context, r *rollouts.Rollout, f why.Facts) ([]rollouts.Action, error) {
	allowed, err := w.allowed(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	var out []rollouts.Action
	for _, use := range w.Uses {
		body := use.Body(expectation(r))
		command := use.Command(body)
		command.Now = metav1.NewTime(f.Now)
		tried := why.TryVerb(r, command, f.Batch)
		raw, err := w.encode(body, tried.RequiredFields)
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

// allowed asks for the permissions of all verbs at once.
func (w whys) allowed(ctx context.Context, name string) (map[string]bool, error) {
	asked := []string{"override"}
	for _, use := range w.Uses {
		if !slices.Contains(asked, string(use.Verb)) {
			asked = append(asked, string(use.Verb))
		}
	}
	answers, errs := make([]bool, len(asked)), make([]error, len(asked))
	var wg sync.WaitGroup
	for i, verb := range asked {
		wg.Go(func() { answers[i], errs[i] = w.may(ctx, "create", verb, name) })
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

// expectation is what the answer was made from, but for what changes with every pod.
func expectation(r *rollouts.Rollout) *rollouts.Expectation {
	want := &rollouts.Expectation{UID: r.UID}
	if p := r.Status.Active(); p != nil {
		want.Step, want.Revision, want.UpdateTemplate, want.Plan = new(p.CurrentStepIndex), p.UpdateRevision, p.UpdateTemplate, p.RolloutHash
	}
	return want
}

// encode is a body as it is sent, without what a person adds.
func (w whys) encode(body runtime.Object, needs []string) ([]byte, error) {
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

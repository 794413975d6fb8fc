// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package view serves responses about a Rollout that are computed and not stored: why, history and plan.
// pkg/why and pkg/forecast compute them. This package reads the objects that they need, with the user's
// permissions. It stores nothing and does not depend on the states of a release.
package view

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/validation"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/claim"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/fetch"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// Plan is the name of the plan subresource.
const Plan = "plan"

// Config is the configuration of the endpoints.
type Config struct {
	fetch.Sources
	Scheme    *runtime.Scheme
	Clock     clock.PassiveClock
	Histories rest.StandardStorage
	// Rules are the administrator's options for validation. CheckClaim returns an error if the Rollout may not
	// claim the workload.
	Rules      validation.Options
	CheckClaim func(ctx context.Context, owner claim.Owner, ref *rollouts.ObjectRef) error
	// Uses are all uses of the verbs, in the order of the responses.
	Uses []VerbUse
}

// VerbUse is one use of a verb.
type VerbUse struct {
	Verb rollouts.Verb
	// Title returns the label of a button at a step; 0 means no step.
	Title func(step int32) string
	// Body returns a request body with the expectation. Command returns the command of a request body.
	Body    func(*rollouts.Expectation) runtime.Object
	Command func(body runtime.Object) verb.Command
}

// NewStorage returns the endpoints, and the function that explains a Rollout.
func NewStorage(c Config) (map[string]rest.Storage, fetch.WhyFunc) {
	w := explainer{c}
	return map[string]rest.Storage{
		"rollouts/why":     &whyREST{computedREST{&rollouts.RolloutWhy{}}, w},
		"rollouts/history": &historyREST{computedREST{&rollouts.RolloutReleases{}}, w},
		"rollouts/" + Plan: &planREST{computedREST{&rollouts.RolloutPlan{}}, w},
	}, w.explain
}

// computedREST is the part of rest.Storage that all computed responses share.
type computedREST struct{ response runtime.Object }

// New implements rest.Storage.
func (c computedREST) New() runtime.Object { return c.response.DeepCopyObject() }

// Destroy implements rest.Storage. There is nothing to destroy.
func (computedREST) Destroy() {}

// whyREST serves the explanation of a Rollout.
type whyREST struct {
	computedREST
	explainer
}

// historyREST serves the releases of a Rollout.
type historyREST struct {
	computedREST
	explainer
}

var (
	_ rest.Getter            = (*whyREST)(nil)
	_ rest.GetterWithOptions = (*historyREST)(nil)
)

// Get implements rest.Getter.
func (r *whyREST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	return r.explainByName(ctx, name)
}

// NewGetOptions implements rest.GetterWithOptions.
func (h *historyREST) NewGetOptions() (options runtime.Object, subpath bool, name string) {
	return &rollouts.HistoryOptions{}, false, ""
}

// Get implements rest.GetterWithOptions.
func (h *historyREST) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	return h.listHistory(ctx, name, options)
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package view answers one question: what does a caller read about a Rollout that is
// computed and not stored? Others compute it (pkg/why, pkg/forecast); here is what is read
// for that, with whose permission. It stores nothing, and must not know the states of a
// release.
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
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/look"
	"github.com/weir-rollouts/weir/pkg/verb"
)

// Plan is the name of what can be asked with a body.
const Plan = "plan"

// Config is what the endpoints need.
type Config struct {
	look.Sources
	Scheme    *runtime.Scheme
	Clock     clock.PassiveClock
	Histories rest.StandardStorage
	// Rules are what an administrator decides about validation, and Claimed says why a workload
	// is not the Rollout's to release.
	Rules   validation.Options
	Claimed func(ctx context.Context, owner claim.Owner, ref *rollouts.ObjectRef) error
	// Uses are the ways to use a verb, in their order.
	Uses []Use
}

// Use is one way to use a verb.
type Use struct {
	Verb rollouts.Verb
	// Title is what a button would say at a step; 0 where there is none.
	Title func(step int32) string
	// Body is what is sent, which expects what is given, and Command what that asks for.
	Body    func(*rollouts.Expectation) runtime.Object
	Command func(body runtime.Object) verb.Command
}

// Serve names the endpoints, and answers why to others.
func Serve(c Config) (map[string]rest.Storage, look.Why) {
	w := whys{c}
	return map[string]rest.Storage{
		"rollouts/why":     &REST{new: func() runtime.Object { return &rollouts.RolloutWhy{} }, get: w.get},
		"rollouts/history": &historyREST{w},
		"rollouts/" + Plan: &planREST{w},
	}, w.of
}

// REST serves one answer about a Rollout.
type REST struct {
	new func() runtime.Object
	get func(ctx context.Context, name string) (runtime.Object, error)
}

var _ rest.Getter = (*REST)(nil)

// New implements rest.Storage.
func (r *REST) New() runtime.Object { return r.new() }

// Destroy implements rest.Storage; there is nothing to destroy.
func (r *REST) Destroy() {}

// Get implements rest.Getter.
func (r *REST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	return r.get(ctx, name)
}

// historyREST serves the releases of a Rollout.
type historyREST struct{ whys }

var _ rest.GetterWithOptions = (*historyREST)(nil)

// New implements rest.Storage.
func (h *historyREST) New() runtime.Object { return &rollouts.RolloutReleases{} }

// Destroy implements rest.Storage; there is nothing to destroy.
func (h *historyREST) Destroy() {}

// NewGetOptions implements rest.GetterWithOptions.
func (h *historyREST) NewGetOptions() (options runtime.Object, subpath bool, name string) {
	return &rollouts.HistoryOptions{}, false, ""
}

// Get implements rest.GetterWithOptions.
func (h *historyREST) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	return h.history(ctx, name, options)
}

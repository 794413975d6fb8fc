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
		"rollouts/why":     &whyREST{computed{&rollouts.RolloutWhy{}}, w},
		"rollouts/history": &historyREST{computed{&rollouts.RolloutReleases{}}, w},
		"rollouts/" + Plan: &planREST{computed{&rollouts.RolloutPlan{}}, w},
	}, w.of
}

// computed is an answer that is not stored.
type computed struct{ answer runtime.Object }

// New implements rest.Storage.
func (c computed) New() runtime.Object { return c.answer.DeepCopyObject() }

// Destroy implements rest.Storage; there is nothing to destroy.
func (computed) Destroy() {}

// whyREST serves why.
type whyREST struct {
	computed
	whys
}

// historyREST serves the releases of a Rollout.
type historyREST struct {
	computed
	whys
}

var (
	_ rest.Getter            = (*whyREST)(nil)
	_ rest.GetterWithOptions = (*historyREST)(nil)
)

// Get implements rest.Getter.
func (r *whyREST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	return r.get(ctx, name)
}

// NewGetOptions implements rest.GetterWithOptions.
func (h *historyREST) NewGetOptions() (options runtime.Object, subpath bool, name string) {
	return &rollouts.HistoryOptions{}, false, ""
}

// Get implements rest.GetterWithOptions.
func (h *historyREST) Get(ctx context.Context, name string, options runtime.Object) (runtime.Object, error) {
	return h.history(ctx, name, options)
}

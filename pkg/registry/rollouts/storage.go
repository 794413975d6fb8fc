// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollouts answers one question: which endpoints does the API group
// have? What each of them does is in the packages below.
package rollouts

import (
	"k8s.io/apiserver/pkg/registry/rest"

	hub "github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/batchrelease"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/rollout"
)

// NewStorage is the table of endpoints. Both versions are served by the very
// same stores, so that there is one watch cache for each kind.
func NewStorage(c rollout.Config) (map[string]map[string]rest.Storage, error) {
	r, err := rollout.NewEndpoints(c)
	if err != nil {
		return nil, err
	}
	batch, batchStatus, err := batchrelease.NewEndpoints(c.Scheme, c.Options)
	if err != nil {
		return nil, err
	}
	serving := func(answer any) map[string]rest.Storage {
		return map[string]rest.Storage{
			"rollouts":             r.Rollout,
			"rollouts/status":      r.Status,
			"rollouts/promote":     r.Commands[hub.VerbPromote].Answering(answer),
			"rollouts/abort":       r.Commands[hub.VerbAbort].Answering(answer),
			"batchreleases":        batch,
			"batchreleases/status": batchStatus,
		}
	}
	return map[string]map[string]rest.Storage{
		v1beta1.SchemeGroupVersion.Version:  serving(v1beta1.Rollout{}),
		v1alpha1.SchemeGroupVersion.Version: serving(v1alpha1.Rollout{}),
	}, nil
}

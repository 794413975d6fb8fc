// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollouts answers one question: which endpoints does the API group
// have? What each of them does is in the packages below.
package rollouts

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/batchrelease"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/plain"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/rollout"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/rollouthistory"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/storagefull"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/trafficrouting"
)

// kind is one that needs nothing of its own.
type kind interface {
	Name() string
	Serve(scheme *runtime.Scheme, options generic.RESTOptionsGetter, d plain.Drivers) (main, status rest.Storage, err error)
}

// NewStorage is the table of endpoints. Both versions are served by the very
// same stores, so that there is one watch cache for each kind. Two kinds exist
// in the older version only.
func NewStorage(c rollout.Config) (map[string]map[string]rest.Storage, error) {
	c.Options = storagefull.Getter{RESTOptionsGetter: c.Options}
	r, err := rollout.NewEndpoints(c)
	if err != nil {
		return nil, err
	}
	both, older := map[string]rest.Storage{}, map[string]rest.Storage{}
	for _, row := range []struct {
		kind     kind
		versions map[string]rest.Storage
	}{
		{batchrelease.Kind, both}, {trafficrouting.Kind, older}, {rollouthistory.Kind, older},
	} {
		main, status, err := row.kind.Serve(c.Scheme, c.Options, r.Drivers)
		if err != nil {
			return nil, err
		}
		resource := row.kind.Name()
		row.versions[resource], row.versions[resource+"/status"] = main, status
	}
	serving := func(answer any) map[string]rest.Storage {
		endpoints := map[string]rest.Storage{
			"rollouts":        r.Rollout,
			"rollouts/status": r.Status,
		}
		for verb, command := range r.Commands {
			endpoints["rollouts/"+string(verb)] = command.Answering(answer)
		}
		maps.Copy(endpoints, both)
		return endpoints
	}
	beta, alpha := serving(v1beta1.Rollout{}), serving(v1alpha1.Rollout{})
	maps.Copy(alpha, older)
	return map[string]map[string]rest.Storage{
		v1beta1.SchemeGroupVersion.Version:  beta,
		v1alpha1.SchemeGroupVersion.Version: alpha,
	}, nil
}

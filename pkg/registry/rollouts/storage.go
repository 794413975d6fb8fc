// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollouts answers one question: which endpoints does the API group
// have? What may be changed through each is in the packages below, and in kinds.go.
package rollouts

import (
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/rollout"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/storagefull"
)

// NewStorage is the table of endpoints by version and resource. All versions are
// served by the very same stores, so that there is one watch cache for each kind.
func NewStorage(c rollout.Config) (map[string]map[string]rest.Storage, error) {
	c.Options = storagefull.Getter{RESTOptionsGetter: c.Options}
	r, err := rollout.NewEndpoints(c)
	if err != nil {
		return nil, err
	}
	served := map[string]map[string]rest.Storage{}
	for version, answer := range map[string]any{"v1beta1": v1beta1.Rollout{}, "v1alpha1": v1alpha1.Rollout{}} {
		served[version] = r.Serve(answer)
	}
	for _, kind := range kinds {
		main, status, err := kind.Serve(c.Scheme, c.Options, r.Drivers)
		if err != nil {
			return nil, err
		}
		resource, versions := kind.Served()
		for _, version := range versions {
			served[version][resource], served[version][resource+"/status"] = main, status
		}
	}
	return served, nil
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollouts answers one question: which endpoints do the API groups
// have? What may be changed through each is in the packages below, and in kinds.go.
package rollouts

import (
	"errors"
	"maps"

	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/look"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/rollout"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/storagefull"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/tree"
)

// Endpoints are those of a group by version and resource.
type Endpoints map[string]map[string]rest.Storage

// NewStorage is the table of endpoints by group. All versions are served by the very
// same stores, so that there is one watch cache for each kind.
func NewStorage(c rollout.Config, t tree.Config) (map[string]Endpoints, error) {
	c.Options = storagefull.Getter{RESTOptionsGetter: c.Options, Room: c.Room}
	r, err := rollout.NewEndpoints(c)
	if err != nil {
		return nil, err
	}
	groups := map[string]Endpoints{rollouts.GroupName: {}, weir.GroupName: {weir.SchemeGroupVersion.Version: {}}}
	for version, answer := range map[string]any{"v1beta1": v1beta1.Rollout{}, "v1alpha1": v1alpha1.Rollout{}} {
		groups[rollouts.GroupName][version] = r.Serve(answer)
	}
	for _, kind := range kinds {
		main, status, err := kind.Serve(c.Scheme, c.Options, r.Drivers)
		if err != nil {
			return nil, err
		}
		resource, versions := kind.Served()
		for _, version := range versions {
			served := groups[resource.Group][version]
			served[resource.Resource] = main
			if status != nil {
				served[resource.Resource+"/status"] = status
			}
		}
	}
	return groups, addViews(groups[rollouts.GroupName], r, c, t)
}

// addViews adds what is computed of what other endpoints store, for clients of today: the
// older version has none of it.
func addViews(stored Endpoints, r *rollout.Endpoints, c rollout.Config, t tree.Config) error {
	served, older := stored["v1beta1"], stored["v1alpha1"]
	histories, ok := older["rollouthistories"].(rest.StandardStorage)
	t.Stores = map[string]look.Store{}
	for kind, storage := range map[string]rest.Storage{
		"Rollout": served["rollouts"], "BatchRelease": served["batchreleases"], "TrafficRouting": older["trafficroutings"],
	} {
		store, isStore := storage.(look.Store)
		t.Stores[kind], ok = store, ok && isStore
	}
	if !ok {
		return errors.New("the endpoints that views are made of can not be listed and watched")
	}
	views, why := r.Views(c, t.Sources, histories)
	maps.Copy(served, views)
	t.Why = why
	served["rollouts/tree"] = tree.NewREST(t)
	return nil
}

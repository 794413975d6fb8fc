// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollouts assembles the endpoints of Weir's API groups. The packages below implement them;
// kinds.go lists the kinds that the generic endpoints serve.
package rollouts

import (
	"errors"
	"maps"

	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/fetch"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/rollout"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/storagefull"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/tree"
)

// checkKinds are the kinds that the checks of a Rollout need, by resource.
var checkKinds = map[string]string{"metricsources": "MetricSource", "checks": "Check", "clusterchecks": "ClusterCheck"}

// Endpoints are the storages of an API group, by version and resource.
type Endpoints map[string]map[string]rest.Storage

// NewStorage returns the endpoints of all API groups. All versions of a kind share one store, so that each
// kind has one watch cache.
func NewStorage(c rollout.Config, t tree.Config) (map[string]Endpoints, error) {
	c.Options = storagefull.OptionsGetter{RESTOptionsGetter: c.Options, Room: c.Room}
	r, err := rollout.NewEndpoints(c)
	if err != nil {
		return nil, err
	}
	groups := map[string]Endpoints{rollouts.GroupName: {}, weir.GroupName: {weir.SchemeGroupVersion.Version: {}}}
	for version, answer := range map[string]any{"v1beta1": v1beta1.Rollout{}, "v1alpha1": v1alpha1.Rollout{}} {
		groups[rollouts.GroupName][version] = r.NewStorage(answer)
	}
	stores := map[string]rest.Getter{}
	r.LookUpIn(stores)
	for _, kind := range genericKinds {
		main, status, err := kind.NewStorage(c.Scheme, c.Options, r.Access)
		if err != nil {
			return nil, err
		}
		resource, versions := kind.ResourceAndVersions()
		if getter, ok := main.(rest.Getter); ok && checkKinds[resource.Resource] != "" {
			stores[checkKinds[resource.Resource]] = getter
		}
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

// addViews adds the endpoints whose responses are computed from stored objects. The older API version does
// not serve them.
func addViews(stored Endpoints, r *rollout.Endpoints, c rollout.Config, t tree.Config) error {
	served, older := stored["v1beta1"], stored["v1alpha1"]
	histories, ok := older["rollouthistories"].(rest.StandardStorage)
	t.Stores = map[string]fetch.Store{}
	for kind, storage := range map[string]rest.Storage{
		"Rollout": served["rollouts"], "BatchRelease": served["batchreleases"], "TrafficRouting": older["trafficroutings"],
	} {
		store, isStore := storage.(fetch.Store)
		t.Stores[kind], ok = store, ok && isStore
	}
	if !ok {
		return errors.New("the endpoints that views are made of can not be listed and watched")
	}
	views, why := r.NewViews(c, t.Sources, histories)
	maps.Copy(served, views)
	t.Why = why
	served["rollouts/tree"] = tree.NewREST(t)
	return nil
}

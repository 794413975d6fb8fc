// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollouts answers one question: which endpoints do the API groups
// have? What may be changed through each is in the packages below, and in kinds.go.
package rollouts

import (
	"context"
	"errors"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	c.Options = storagefull.Getter{RESTOptionsGetter: c.Options}
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
	served := stored["v1beta1"]
	var isRollouts, isBatches bool
	t.Rollouts, isRollouts = served["rollouts"].(look.Store)
	t.BatchReleases, isBatches = served["batchreleases"].(look.Store)
	histories, isHistories := stored["v1alpha1"]["rollouthistories"].(rest.StandardStorage)
	maps.Copy(served, r.Views(c, t.Sources, histories))
	why, isWhy := served["rollouts/why"].(rest.Getter)
	if !isRollouts || !isBatches || !isHistories || !isWhy {
		return errors.New("the endpoints of rollouts, batchreleases and rollouthistories can not be read for views")
	}
	t.Why = func(ctx context.Context, r *rollouts.Rollout) (rollouts.RolloutWhy, error) {
		obj, err := why.Get(ctx, r.Name, &metav1.GetOptions{})
		if err != nil {
			return rollouts.RolloutWhy{}, err
		}
		return *obj.(*rollouts.RolloutWhy), nil
	}
	served["rollouts/tree"] = tree.NewREST(t)
	return nil
}

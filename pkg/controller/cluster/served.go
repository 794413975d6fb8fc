// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// errServedByOthers stops what depends on the absence of Rollouts.
var errServedByOthers = errors.New("the API of Rollouts is served by CustomResourceDefinitions and not by Weir, so that no Rollout " +
	"can be said to be gone; let the APIServices lead to Weir, or stop the controllers")

// VerifyServedByWeir returns an error if others serve the API of Rollouts. While
// CustomResourceDefinitions serve the API, every Rollout of Weir seems to be deleted: a
// controller that gave workloads back then would release what nobody approved.
func VerifyServedByWeir(api discovery.ServerResourcesInterface) error {
	served, err := api.ServerResourcesForGroupVersion(v1beta1.SchemeGroupVersion.String())
	if err != nil {
		return fmt.Errorf("asking who serves the API of Rollouts: %w", err)
	}
	// A CustomResourceDefinition has no such subresource.
	if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == "rollouts/promote" }) {
		return errServedByOthers
	}
	return nil
}

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

// errServedByOthers stops a pass that would act because a Rollout seems to be deleted.
var errServedByOthers = errors.New("rollouts.kruise.io/v1beta1 is served by CustomResourceDefinitions instead of Weir, so the controllers cannot tell whether a Rollout " +
	"was deleted; point the APIServices of rollouts.kruise.io at the Service weir-apiserver again, or stop the controllers")

// VerifyServedByWeir returns an error if another server serves the API of Rollouts. While
// CustomResourceDefinitions serve the API, every Rollout that Weir stores seems to be
// deleted. A controller that gave workloads back then would release unapproved templates.
func VerifyServedByWeir(api discovery.ServerResourcesInterface) error {
	served, err := api.ServerResourcesForGroupVersion(v1beta1.SchemeGroupVersion.String())
	if err != nil {
		return fmt.Errorf("discovering which server serves rollouts.kruise.io/v1beta1: %w", err)
	}
	// A CustomResourceDefinition has no such subresource.
	if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == "rollouts/promote" }) {
		return errServedByOthers
	}
	return nil
}

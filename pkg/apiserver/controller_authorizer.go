// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// controllerAuthorizer asks whether weir-controller may do something with all
// objects before it asks about the object of a request. The role of the controller
// allows that, so one answer of the cluster serves every release. A request of the
// controller has passed kube-apiserver's own check by name before.
type controllerAuthorizer struct {
	authorizer.Authorizer
	controller string
}

func (w controllerAuthorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser() == nil || a.GetUser().GetName() != w.controller || !a.IsResourceRequest() {
		return w.Authorizer.Authorize(ctx, a)
	}
	decision, reason, err := w.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUser(), Verb: a.GetVerb(), APIGroup: a.GetAPIGroup(), APIVersion: a.GetAPIVersion(),
		Resource: a.GetResource(), Subresource: a.GetSubresource(), ResourceRequest: true,
	})
	if decision == authorizer.DecisionAllow {
		return decision, reason, err
	}
	return w.Authorizer.Authorize(ctx, a)
}

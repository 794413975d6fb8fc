// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// controllerAuthorizer first asks whether weir-controller may use the verb on all objects, and only then
// about the object of the request. The controller's role permits that, so one cached response of
// kube-apiserver serves every release. kube-apiserver has already authorized the request for the specific
// object.
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

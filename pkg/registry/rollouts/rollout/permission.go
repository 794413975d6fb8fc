// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// permissions asks the authorizer what else the user of a request may do.
type permissions struct {
	authorizer authorizer.Authorizer
	// legacyApprovals admits decisions by writes of the status or the spec without the permission for the verb.
	legacyApprovals bool
}

// checkDecision returns an error if a write of a field implies a decision and the user may not use the verb of
// that decision.
func (p permissions) checkDecision(ctx context.Context, resource, name, set string, verb rollouts.Verb) error {
	if p.legacyApprovals {
		return nil
	}
	return p.checkVerb(ctx, resource, name, set, verb)
}

// checkVerb returns an error if the user may not use the verb. Unlike checkDecision, it ignores legacyApprovals.
func (p permissions) checkVerb(ctx context.Context, resource, name, set string, verb rollouts.Verb) error {
	allowed, err := p.isAllowed(ctx, "create", string(verb), name)
	if err != nil || allowed {
		return err
	}
	return apierrors.NewForbidden(rollouts.Resource(resource), name, fmt.Errorf(
		"setting %s is the decision %s: user %q needs permission to create rollouts/%s in namespace %q",
		set, verb, userName(ctx), verb, genericapirequest.NamespaceValue(ctx)))
}

// isAllowed reports whether the user may use a subresource of Rollouts.
func (p permissions) isAllowed(ctx context.Context, verb, subresource, name string) (bool, error) {
	who, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return false, apierrors.NewInternalError(errors.New("finding the user of a request"))
	}
	asked := authorizer.AttributesRecord{
		User: who, Verb: verb, Namespace: genericapirequest.NamespaceValue(ctx), APIGroup: rollouts.GroupName,
		APIVersion: "*", Resource: "rollouts", Subresource: subresource, Name: name, ResourceRequest: true,
	}
	decision, _, err := p.authorizer.Authorize(ctx, asked)
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	if err != nil {
		return false, apierrors.NewInternalError(fmt.Errorf("asking for permission to %s rollouts/%s: %w", verb, subresource, err))
	}
	return false, nil
}

// Access implements endpoint.Access with the authorizer of the server.
type Access struct {
	permissions
	controller string
	getRollout func(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error)
}

// MayWriteProgress implements endpoint.Access. It asks about all names of the namespace, so that one cached answer
// serves all Rollouts.
func (d *Access) MayWriteProgress(ctx context.Context) (bool, error) {
	return d.isAllowed(ctx, "update", "progress", "")
}

// MayGet implements endpoint.Access.
func (d *Access) MayGet(ctx context.Context, of schema.GroupResource, name string) (bool, error) {
	who, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return false, apierrors.NewInternalError(errors.New("finding the user of a request"))
	}
	decision, _, err := d.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: who, Verb: "get", Namespace: genericapirequest.NamespaceValue(ctx), APIGroup: of.Group,
		APIVersion: "*", Resource: of.Resource, Name: name, ResourceRequest: true,
	})
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	if err != nil {
		return false, apierrors.NewInternalError(fmt.Errorf("asking for permission to get %s: %w", of, err))
	}
	return false, nil
}

// IsController implements endpoint.Access.
func (d *Access) IsController(ctx context.Context) bool { return userName(ctx) == d.controller }

// GetRollout implements endpoint.Access.
func (d *Access) GetRollout(ctx context.Context, name string) (*rollouts.Rollout, error) {
	obj, err := d.getRollout(ctx, name, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return obj.(*rollouts.Rollout), nil
}

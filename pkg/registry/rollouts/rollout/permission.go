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

// permissions answers what the user of a request may do beside the request.
type permissions struct {
	authorizer authorizer.Authorizer
	// legacy lets older ways of deciding pass without the permission of the verb.
	legacy bool
}

// mayDecide refuses a decision that came without its verb, by a write of the
// field, unless the user could have used the verb.
func (p permissions) mayDecide(ctx context.Context, resource, name, set string, verb rollouts.Verb) error {
	if p.legacy {
		return nil
	}
	return p.mustUse(ctx, resource, name, set, verb)
}

// mustUse refuses a decision of a user who may not use the verb, also where older ways of
// deciding need no permission.
func (p permissions) mustUse(ctx context.Context, resource, name, set string, verb rollouts.Verb) error {
	allowed, err := p.may(ctx, "create", string(verb), name)
	if err != nil || allowed {
		return err
	}
	return apierrors.NewForbidden(rollouts.Resource(resource), name, fmt.Errorf(
		"setting %s is the decision %s: user %q needs permission to create rollouts/%s in namespace %q",
		set, verb, userName(ctx), verb, genericapirequest.NamespaceValue(ctx)))
}

// may asks whether the user may use a subresource of Rollouts.
func (p permissions) may(ctx context.Context, verb, subresource, name string) (bool, error) {
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

// Drivers knows who drives releases, and of which Rollouts. It implements plain.Drivers.
type Drivers struct {
	permissions
	controller string
	get        func(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error)
}

// Drives implements plain.Drivers. It is asked for all names of the namespace, so
// that the answer is cached well.
func (d *Drivers) Drives(ctx context.Context) (bool, error) {
	return d.may(ctx, "update", "progress", "")
}

// Reads implements plain.Drivers.
func (d *Drivers) Reads(ctx context.Context, of schema.GroupResource, name string) (bool, error) {
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

// Controls implements plain.Drivers.
func (d *Drivers) Controls(ctx context.Context) bool { return userName(ctx) == d.controller }

// Rollout implements plain.Drivers.
func (d *Drivers) Rollout(ctx context.Context, name string) (*rollouts.Rollout, error) {
	obj, err := d.get(ctx, name, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return obj.(*rollouts.Rollout), nil
}

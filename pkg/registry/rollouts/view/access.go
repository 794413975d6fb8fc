// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// Cluster reads objects with the account of the server.
type Cluster interface {
	// Get returns nil where the object does not exist.
	Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	// List returns the objects that a selector of labels selects.
	List(ctx context.Context, kind schema.GroupVersionKind, namespace, selector string) ([]unstructured.Unstructured, error)
}

// Reader reads one kind of our own.
type Reader interface {
	Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error)
}

// access answers what the caller of a request may do, and reads what the caller may read.
type access struct {
	authorizer authorizer.Authorizer
	cluster    Cluster
	rollouts   Reader
}

// rollout is the stored Rollout, which the caller has to be allowed to get.
func (a access) rollout(ctx context.Context, name string) (*rollouts.Rollout, error) {
	allowed, err := a.may(ctx, "get", rollouts.Resource("rollouts"), "", name)
	if err != nil {
		return nil, err
	}
	if !allowed {
		return nil, apierrors.NewForbidden(rollouts.Resource("rollouts"), name, errors.New("it takes permission to get rollouts, too"))
	}
	obj, err := a.rollouts.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*rollouts.Rollout), nil
}

// may asks whether the caller may do something in the namespace of the request. The
// authorizer remembers its answers for ten seconds.
func (a access) may(ctx context.Context, verb string, resource schema.GroupResource, subresource, name string) (bool, error) {
	who, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return false, apierrors.NewInternalError(errors.New("finding the user of a request"))
	}
	decision, _, err := a.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: who, Verb: verb, Namespace: genericapirequest.NamespaceValue(ctx), APIGroup: resource.Group,
		APIVersion: "*", Resource: resource.Resource, Subresource: subresource, Name: name, ResourceRequest: true,
	})
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	if err != nil {
		return false, apierrors.NewInternalError(fmt.Errorf("asking for permission to %s %s: %w", verb, resource, err))
	}
	return false, nil
}

// question is about objects of a kind: one by its name, or those of a selector.
type question struct {
	kind           schema.GroupVersionKind
	name, selector string
}

func (q question) resource() schema.GroupResource {
	resource, _ := meta.UnsafeGuessKindToResource(q.kind)
	return resource.GroupResource()
}

func (q question) verb() string {
	if q.name != "" {
		return "get"
	}
	return "list"
}

// read answers a question with what the caller may see; unknown says why it cannot.
func (a access) read(ctx context.Context, q question) (found []unstructured.Unstructured, unknown string) {
	permission := q.verb() + " " + q.resource().String()
	if a.cluster == nil {
		return nil, permission + ": there is no cluster"
	}
	allowed, err := a.may(ctx, q.verb(), q.resource(), "", q.name)
	switch {
	case err != nil:
		return nil, permission + ": " + err.Error()
	case !allowed:
		return nil, "it takes permission to " + permission
	}
	namespace := genericapirequest.NamespaceValue(ctx)
	if q.name == "" {
		found, err = a.cluster.List(ctx, q.kind, namespace, q.selector)
	} else if one, failed := a.cluster.Get(ctx, q.kind, namespace, q.name); failed != nil {
		err = failed
	} else if one != nil {
		found = append(found, *one)
	}
	switch {
	case apierrors.IsForbidden(err):
		return nil, "weir-apiserver may not " + permission + "; the ClusterRole weir-apiserver-views allows it"
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, "" // the cluster does not have the kind
	case err != nil:
		return nil, permission + ": " + err.Error()
	}
	return found, ""
}

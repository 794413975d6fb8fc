// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package fetch reads a Rollout and the objects that belong to it for the user of a request. It asks the
// authorizer about the user's permissions, and reads with the service account of the server. It caches
// nothing.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/dynamic"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/object"
	"github.com/weir-rollouts/weir/pkg/view"
)

// Timeout limits the time of the reads for one response.
const Timeout = 3 * time.Second

// ErrNoCluster is the error for reads while the server runs without a cluster.
var ErrNoCluster = errors.New("the server has no cluster")

// Store is the storage of one of our own kinds in this process.
type Store interface {
	rest.Getter
	rest.Watcher
	List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error)
}

// Sources are the places to read objects from, and the authorizer of the reads.
type Sources struct {
	// Stores are the storages in this process, by kind.
	Stores map[string]Store
	// Cluster reads with the service account of the server; nil if there is no cluster.
	Cluster    dynamic.Interface
	Authorizer authorizer.Authorizer
}

// WhyFunc explains a Rollout. The outer call computes what is the same for all users. The returned function
// adds what depends on the user of a request.
type WhyFunc func(context.Context, *rollouts.Rollout) func(context.Context) (*rollouts.RolloutWhy, error)

// GetRollout returns the stored Rollout if the user of the request may get it.
func (s *Sources) GetRollout(ctx context.Context, name string) (*rollouts.Rollout, error) {
	if err := s.CheckAccess(ctx, "get", "", name); err != nil {
		return nil, err
	}
	obj, err := s.Stores["Rollout"].Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*rollouts.Rollout), nil
}

// CheckAccess returns an error if the user of the request may not use the verb on the Rollout.
func (s *Sources) CheckAccess(ctx context.Context, verb, subresource, name string) error {
	return s.authorize(ctx, authorizer.AttributesRecord{
		Verb: verb, APIGroup: rollouts.GroupName, APIVersion: "*", Resource: "rollouts", Subresource: subresource, Name: name,
	})
}

// MayRead reports whether the user of the request may read these objects. If the authorizer fails, May reports
// false.
func (s *Sources) MayRead(ctx context.Context, read view.Read) bool {
	resource := read.Resource()
	return s.authorize(ctx, authorizer.AttributesRecord{
		Verb: read.Verb(), APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource, Name: read.Name,
	}) == nil
}

func (s *Sources) authorize(ctx context.Context, a authorizer.AttributesRecord) error {
	who, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(errors.New("finding the user of a request"))
	}
	a.User, a.Namespace, a.ResourceRequest = who, genericapirequest.NamespaceValue(ctx), true
	decision, _, err := s.Authorizer.Authorize(ctx, a)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return apierrors.NewInternalError(fmt.Errorf("asking for permission to %s %s: %w", a.Verb, a.Resource, err))
	}
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	return apierrors.NewForbidden(rollouts.Resource(resource), a.Name, fmt.Errorf("user %q needs permission to %s %s in namespace %q", who.GetName(), a.Verb, resource, a.Namespace))
}

// Reader reads objects of one namespace.
type Reader func(context.Context, view.Read) ([]object.Object, error)

// LiveReader returns a Reader that reads from the watch caches of this process and of kube-apiserver.
func (s *Sources) LiveReader(namespace string) Reader {
	return func(ctx context.Context, r view.Read) ([]object.Object, error) {
		options := metav1.ListOptions{ResourceVersion: "0"}
		RestrictOptions(r, &options)
		if store := s.StoreFor(r); store != nil {
			list, err := List(genericapirequest.WithNamespace(ctx, namespace), store, options)
			if err != nil {
				return nil, err
			}
			return toObjects(list)
		}
		if s.Cluster == nil {
			return nil, ErrNoCluster
		}
		list, err := s.Cluster.Resource(r.Resource()).Namespace(namespace).List(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil, nil // the cluster does not serve the kind
		}
		if err != nil {
			return nil, err
		}
		var found []object.Object
		for i := range list.Items {
			o, err := r.TrimObject(&list.Items[i])
			if err != nil {
				return nil, err
			}
			found = append(found, o)
		}
		return found, nil
	}
}

// RestrictOptions restricts list options to the objects to be read.
func RestrictOptions(r view.Read, options *metav1.ListOptions) {
	options.LabelSelector = r.Labels
	if r.Name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, r.Name).String()
	}
}

// StoreFor returns the storage in this process that serves the kind; nil if kube-apiserver serves it.
func (s *Sources) StoreFor(r view.Read) Store {
	if r.Kind.Group != rollouts.GroupName {
		return nil
	}
	return s.Stores[r.Kind.Kind]
}

// List lists objects of an endpoint.
func List(ctx context.Context, from Store, options metav1.ListOptions) (runtime.Object, error) {
	internal, err := InternalOptions(options)
	if err != nil {
		return nil, err
	}
	return from.List(ctx, internal)
}

// InternalOptions converts list options to the type that storages take.
func InternalOptions(options metav1.ListOptions) (*metainternalversion.ListOptions, error) {
	var internal metainternalversion.ListOptions
	if err := metainternalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(&options, &internal, nil); err != nil {
		return nil, fmt.Errorf("converting the options of a request: %w", err)
	}
	return &internal, nil
}

func toObjects(list runtime.Object) (found []object.Object, err error) {
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if o, ok := item.(object.Object); ok {
			found = append(found, o)
		}
		return nil
	})
	return found, err
}

// ReadAll reads all objects that are still needed, as far as may permits them.
func ReadAll(ctx context.Context, seen *view.Observed, read Reader, may func(view.Read) bool) {
	for next := seen.Next(); len(next) > 0; next = seen.Next() {
		answers := make([]view.Answer, len(next))
		var all sync.WaitGroup
		for i, n := range next {
			all.Go(func() {
				if !may(n) {
					answers[i] = view.Answer{Forbidden: true}
					return
				}
				objects, err := read(ctx, n)
				answers[i] = view.Answer{Objects: objects, Failure: failureMessage(err)}
			})
		}
		all.Wait()
		for i, n := range next {
			seen.Answers[n] = answers[i]
		}
	}
}

// failureMessage returns the text that explains to users why objects could not be read.
func failureMessage(err error) string {
	switch {
	case err == nil:
		return ""
	case apierrors.IsForbidden(err):
		return "weir-apiserver may not read them; the ClusterRole weir-apiserver-views grants it"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Sprintf("they could not be read within %s", Timeout)
	default:
		return "they could not be read: " + err.Error()
	}
}

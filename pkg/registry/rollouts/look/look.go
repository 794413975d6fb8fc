// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package look answers: what may the caller of a request see of a Rollout and of what
// belongs to it, and what is there? It asks the authorizer as the caller, and reads with the
// account of the server. It keeps nothing.
package look

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

// Patience is how long an answer waits for what it reads.
const Patience = 3 * time.Second

// ErrNoCluster says why nothing can be read.
var ErrNoCluster = errors.New("the server has no cluster")

// Store is an endpoint of this process.
type Store interface {
	rest.Getter
	rest.Watcher
	List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error)
}

// Sources are where objects are read, and who says whether a user may see them.
type Sources struct {
	// Stores are endpoints of this process, by kind.
	Stores map[string]Store
	// Cluster reads with the account of the server; nil where there is no cluster.
	Cluster    dynamic.Interface
	Authorizer authorizer.Authorizer
}

// Why says of a Rollout what is the same for all users; what it returns adds what is not, for
// the user of a request.
type Why func(context.Context, *rollouts.Rollout) func(context.Context) (*rollouts.RolloutWhy, error)

// Rollout is the stored Rollout, for a caller that may get it.
func (s *Sources) Rollout(ctx context.Context, name string) (*rollouts.Rollout, error) {
	if err := s.Allowed(ctx, "get", "", name); err != nil {
		return nil, err
	}
	obj, err := s.Stores["Rollout"].Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*rollouts.Rollout), nil
}

// Allowed refuses users that may not do something with a Rollout.
func (s *Sources) Allowed(ctx context.Context, verb, subresource, name string) error {
	return s.ask(ctx, authorizer.AttributesRecord{
		Verb: verb, APIGroup: rollouts.GroupName, APIVersion: "*", Resource: "rollouts", Subresource: subresource, Name: name,
	})
}

// May reports whether the user of a request may see what is read. An authorizer that cannot
// answer allows nothing.
func (s *Sources) May(ctx context.Context, read view.Read) bool {
	resource := read.Resource()
	return s.ask(ctx, authorizer.AttributesRecord{
		Verb: read.Verb(), APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource, Name: read.Name,
	}) == nil
}

func (s *Sources) ask(ctx context.Context, a authorizer.AttributesRecord) error {
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

// Reader answers one question about objects of a namespace.
type Reader func(context.Context, view.Read) ([]object.Object, error)

// Live reads from what the API server has in memory.
func (s *Sources) Live(namespace string) Reader {
	return func(ctx context.Context, r view.Read) ([]object.Object, error) {
		options := metav1.ListOptions{ResourceVersion: "0"}
		Narrow(r, &options)
		if store := s.Store(r); store != nil {
			list, err := List(genericapirequest.WithNamespace(ctx, namespace), store, options)
			if err != nil {
				return nil, err
			}
			return items(list)
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

// Narrow asks for what is read, and no more.
func Narrow(r view.Read, options *metav1.ListOptions) {
	options.LabelSelector = r.Labels
	if r.Name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, r.Name).String()
	}
}

// Store is the endpoint that serves the kind in this process; nil if the cluster does.
func (s *Sources) Store(r view.Read) Store {
	if r.Kind.Group != rollouts.GroupName {
		return nil
	}
	return s.Stores[r.Kind.Kind]
}

// List lists objects of an endpoint.
func List(ctx context.Context, from Store, options metav1.ListOptions) (runtime.Object, error) {
	internal, err := Internal(options)
	if err != nil {
		return nil, err
	}
	return from.List(ctx, internal)
}

// Internal are the options of a request as an endpoint takes them.
func Internal(options metav1.ListOptions) (*metainternalversion.ListOptions, error) {
	var internal metainternalversion.ListOptions
	if err := metainternalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(&options, &internal, nil); err != nil {
		return nil, fmt.Errorf("converting the options of a request: %w", err)
	}
	return &internal, nil
}

func items(list runtime.Object) (found []object.Object, err error) {
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if o, ok := item.(object.Object); ok {
			found = append(found, o)
		}
		return nil
	})
	return found, err
}

// All reads what is still missing, as far as somebody may see it.
func All(ctx context.Context, seen *view.Observed, read Reader, may func(view.Read) bool) {
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
				answers[i] = view.Answer{Objects: objects, Failure: failure(err)}
			})
		}
		all.Wait()
		for i, n := range next {
			seen.Answers[n] = answers[i]
		}
	}
}

// failure says why something could not be read.
func failure(err error) string {
	switch {
	case err == nil:
		return ""
	case apierrors.IsForbidden(err):
		return "weir-apiserver may not read them; the ClusterRole weir-apiserver-views grants it"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Sprintf("they could not be read within %s", Patience)
	default:
		return "they could not be read: " + err.Error()
	}
}

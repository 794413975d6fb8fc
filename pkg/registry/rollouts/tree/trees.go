// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/view"
)

const (
	// patience is how long a tree waits for what it reads.
	patience = 3 * time.Second
	// gathering is how long an answer serves others that ask for the same, and the least
	// time between two trees of a watch.
	gathering = 500 * time.Millisecond
	// lingering is how long the watches of a tree go on when nobody looks.
	lingering = 30 * time.Second
	// recheck is how often the permissions of a viewer are asked for again.
	recheck = 30 * time.Second
	// longest is how long a viewer may watch.
	longest = 10 * time.Minute
)

// Store is an endpoint of this process.
type Store interface {
	rest.Getter
	rest.Watcher
	List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error)
}

// Config is what trees are made from.
type Config struct {
	Rollouts, BatchReleases Store
	// Cluster reads with the account of the server; nil where there is no cluster.
	Cluster    dynamic.Interface
	Authorizer authorizer.Authorizer
	Clock      clock.WithDelayedExecution
	// MaxOpen is how many Rollouts may be watched at once.
	MaxOpen int
	// Why is the answer of why for the user of a request.
	Why func(context.Context, *rollouts.Rollout) (rollouts.RolloutWhy, error)
}

// REST serves the trees of Rollouts.
type REST struct {
	Config
	mu sync.Mutex
	// flights are reads that go on, or have just ended.
	flights map[types.NamespacedName]*flight
	open    map[types.NamespacedName]*open
	closed  bool
	ends    sync.WaitGroup
}

var (
	_ rest.Getter  = (*REST)(nil)
	_ rest.Watcher = (*REST)(nil)
)

// NewREST serves trees.
func NewREST(c Config) *REST {
	return &REST{Config: c, flights: map[types.NamespacedName]*flight{}, open: map[types.NamespacedName]*open{}}
}

// New implements rest.Storage.
func (t *REST) New() runtime.Object { return &rollouts.RolloutTree{} }

// Destroy implements rest.Storage: it ends the watches.
func (t *REST) Destroy() {
	t.mu.Lock()
	t.closed = true
	for key, o := range t.open {
		t.close(key, o)
	}
	t.mu.Unlock()
	t.ends.Wait()
}

// Get implements rest.Getter.
func (t *REST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	r, err := t.rollout(ctx, name)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	seen := readAll(bounded, r, t.flight(key).read, func(read view.Read) bool { return t.may(ctx, read) })
	return t.answer(ctx, r, view.Of(seen, t.Clock.Now()))
}

// Watch implements rest.Watcher.
func (t *REST) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	name, ok := "", false
	if options != nil && options.FieldSelector != nil {
		name, ok = options.FieldSelector.RequiresExactMatch("metadata.name")
	}
	if !ok {
		return nil, apierrors.NewBadRequest("a tree is watched by the name of its Rollout: GET …/watch/namespaces/NAMESPACE/rollouts/NAME/tree")
	}
	r, err := t.rollout(ctx, name)
	if err != nil {
		return nil, err
	}
	return t.join(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
}

// rollout reads the Rollout for a caller that may see it.
func (t *REST) rollout(ctx context.Context, name string) (*rollouts.Rollout, error) {
	if err := t.mayLook(ctx, name); err != nil {
		return nil, err
	}
	obj, err := t.Rollouts.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return obj.(*rollouts.Rollout), nil
}

// answer is the tree as it is sent to the user of a request.
func (t *REST) answer(ctx context.Context, r *rollouts.Rollout, tree view.Tree) (*rollouts.RolloutTree, error) {
	out := &rollouts.RolloutTree{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, UID: r.UID, ResourceVersion: r.ResourceVersion, CreationTimestamp: r.CreationTimestamp},
		Nodes:      tree.Nodes, Hidden: tree.Hidden,
	}
	if t.Why == nil {
		return out, nil
	}
	var err error
	out.Why, err = t.Why(ctx, r)
	return out, err
}

// readAll reads what a tree needs, as far as somebody may see it.
func readAll(ctx context.Context, r *rollouts.Rollout, read reader, may func(view.Read) bool) *view.Seen {
	seen := &view.Seen{Rollout: r, Answers: map[view.Read]view.Answer{}}
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
	return seen
}

// failure says why something could not be read.
func failure(err error) string {
	switch {
	case err == nil:
		return ""
	case apierrors.IsForbidden(err):
		return "weir-apiserver may not read them; the ClusterRole weir-apiserver-views grants it"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Sprintf("they could not be read within %s", patience)
	default:
		return "they could not be read: " + err.Error()
	}
}

// may reports whether the user of a request may see what is read. An authorizer that cannot
// answer allows nothing.
func (t *REST) may(ctx context.Context, read view.Read) bool {
	resource := read.Resource()
	return t.allowed(ctx, authorizer.AttributesRecord{
		Verb: read.Verb(), APIGroup: resource.Group, APIVersion: resource.Version, Resource: resource.Resource, Name: read.Name,
	}) == nil
}

// mayLook refuses users that may not see the Rollout itself.
func (t *REST) mayLook(ctx context.Context, name string) error {
	return t.allowed(ctx, authorizer.AttributesRecord{
		Verb: "get", APIGroup: rollouts.GroupName, APIVersion: "*", Resource: "rollouts", Name: name,
	})
}

// mayWatch refuses users that may not watch its tree any more.
func (t *REST) mayWatch(ctx context.Context, name string) error {
	if err := t.mayLook(ctx, name); err != nil {
		return err
	}
	return t.allowed(ctx, authorizer.AttributesRecord{
		Verb: "watch", APIGroup: rollouts.GroupName, APIVersion: "*", Resource: "rollouts", Subresource: "tree", Name: name,
	})
}

func (t *REST) allowed(ctx context.Context, a authorizer.AttributesRecord) error {
	who, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(errors.New("finding the user of a request"))
	}
	a.User, a.Namespace, a.ResourceRequest = who, genericapirequest.NamespaceValue(ctx), true
	decision, _, err := t.Authorizer.Authorize(ctx, a)
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

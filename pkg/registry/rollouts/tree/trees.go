// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/look"
	"github.com/weir-rollouts/weir/pkg/view"
)

const (
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

// Config is what trees are made from.
type Config struct {
	look.Sources
	Clock clock.WithDelayedExecution
	// MaxOpen is how many Rollouts may be watched at once.
	MaxOpen int
	Why     look.Why
}

// REST serves the trees of Rollouts.
type REST struct {
	Config
	mu sync.Mutex
	// flights are reads that go on, or have just ended.
	flights map[types.NamespacedName]*flight
	open    map[types.NamespacedName]*open
	// informers are shared by the open trees.
	informers sharedInformers
	// opened is the number of trees opened so far, the source of open.number.
	opened int
	closed bool
	ends   sync.WaitGroup
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
	t.informers.running.Wait()
}

// Get implements rest.Getter.
func (t *REST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	r, err := t.Rollout(ctx, name)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, look.Patience)
	defer cancel()
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	seen := view.NewObserved(r)
	look.All(bounded, seen, t.flight(key).read, func(read view.Read) bool { return t.May(ctx, read) })
	return answer(ctx, r, view.BuildTree(seen, t.Clock.Now()), t.Why(ctx, r))
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
	r, err := t.Rollout(ctx, name)
	if err != nil {
		return nil, err
	}
	return t.join(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
}

// answer is the tree as it is sent to the user of a request.
func answer(ctx context.Context, r *rollouts.Rollout, tree view.Tree, why func(context.Context) (*rollouts.RolloutWhy, error)) (*rollouts.RolloutTree, error) {
	says, err := why(ctx)
	if err != nil {
		return nil, err
	}
	return &rollouts.RolloutTree{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, UID: r.UID, ResourceVersion: r.ResourceVersion, CreationTimestamp: r.CreationTimestamp},
		Nodes:      tree.Nodes, Hidden: tree.Hidden, Why: *says,
	}, nil
}

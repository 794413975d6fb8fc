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
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/fetch"
	"github.com/weir-rollouts/weir/pkg/view"
)

const (
	// minInterval is how long a read serves other requests for the same objects, and the minimum time between
	// two snapshots of a watched tree.
	minInterval = 500 * time.Millisecond
	// idleTimeout is how long the watches of a tree continue without viewers.
	idleTimeout = 30 * time.Second
	// recheckInterval is how often the permissions of viewers are checked again.
	recheckInterval = 30 * time.Second
	// maxWatchDuration is the maximum duration of a watch.
	maxWatchDuration = 10 * time.Minute
)

// Config is the configuration of the endpoint.
type Config struct {
	fetch.Sources
	Clock clock.WithDelayedExecution
	// MaxOpen is the maximum number of Rollouts that may be watched at once.
	MaxOpen int
	Why     fetch.WhyFunc
}

// REST serves the trees of Rollouts.
type REST struct {
	Config
	mu sync.Mutex
	// sharedReads are shared reads that run or have just ended.
	sharedReads map[types.NamespacedName]*sharedRead
	openTrees   map[types.NamespacedName]*openTree
	// informers are shared by the open trees.
	informers sharedInformers
	// opened is the number of trees opened so far, the source of openTree.number.
	opened int
	closed bool
	ends   sync.WaitGroup
}

var (
	_ rest.Getter  = (*REST)(nil)
	_ rest.Watcher = (*REST)(nil)
)

// NewREST returns the endpoint of trees.
func NewREST(c Config) *REST {
	return &REST{Config: c, sharedReads: map[types.NamespacedName]*sharedRead{}, openTrees: map[types.NamespacedName]*openTree{}}
}

// New implements rest.Storage.
func (t *REST) New() runtime.Object { return &rollouts.RolloutTree{} }

// Destroy implements rest.Storage. It ends all watches.
func (t *REST) Destroy() {
	t.mu.Lock()
	t.closed = true
	for key, o := range t.openTrees {
		t.closeTree(key, o)
	}
	t.mu.Unlock()
	t.ends.Wait()
	t.informers.running.Wait()
}

// Get implements rest.Getter.
func (t *REST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	r, err := t.GetRollout(ctx, name)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, fetch.Timeout)
	defer cancel()
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	seen := view.NewObserved(r)
	fetch.ReadAll(bounded, seen, t.joinSharedRead(key).readOnce, func(read view.Read) bool { return t.MayRead(ctx, read) })
	return newRolloutTree(ctx, r, view.BuildTree(seen, t.Clock.Now()), t.Why(ctx, r))
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
	r, err := t.GetRollout(ctx, name)
	if err != nil {
		return nil, err
	}
	return t.addViewer(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
}

// newRolloutTree returns the tree as the response for the user of a request.
func newRolloutTree(ctx context.Context, r *rollouts.Rollout, tree view.Tree, why func(context.Context) (*rollouts.RolloutWhy, error)) (*rollouts.RolloutTree, error) {
	says, err := why(ctx)
	if err != nil {
		return nil, err
	}
	return &rollouts.RolloutTree{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace, UID: r.UID, ResourceVersion: r.ResourceVersion, CreationTimestamp: r.CreationTimestamp},
		Nodes:      tree.Nodes, Hidden: tree.Hidden, Why: *says,
	}, nil
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/view"
)

// viewer is a watch of a tree. It sends an event whenever the visible part of the tree changes.
type viewer struct {
	*watch.ProxyWatcher
	events chan watch.Event
	open   *openTree
	may    func(view.Read) bool
	// user is the name of the viewer's user. number is the viewer's sequence number in its tree.
	user   string
	number int
	// sent is the tree that was sent last; nil before the first one.
	sent *rollouts.RolloutTree
}

func newViewer(ctx context.Context, o *openTree) *viewer {
	events := make(chan watch.Event)
	return &viewer{
		ProxyWatcher: watch.NewProxyWatcher(events), events: events, open: o, user: userName(ctx),
		may: func(r view.Read) bool { return o.trees.MayRead(ctx, r) },
	}
}

// run sends trees until the viewer leaves or loses its permission, the tree loses its slot, or the
// maximum duration of a watch is over.
func (v *viewer) run(ctx context.Context) {
	defer close(v.events)
	defer v.open.removeViewer(v)
	end := v.open.trees.Clock.NewTimer(maxWatchDuration)
	defer end.Stop()
	checked := v.open.trees.Clock.Now()
	for {
		if why, ended := v.open.endReason(); ended {
			if why != nil {
				v.send(ctx, errorEvent(why), end.C())
			}
			return
		}
		now := v.open.currentSnapshot()
		event, last := v.nextEvent(ctx, now)
		if event != nil && !v.send(ctx, *event, end.C()) || last {
			return
		}
		if wait := recheckInterval - v.open.trees.Clock.Since(checked); !v.await(ctx, now.next, wait, end.C()) {
			return
		}
		if v.open.trees.Clock.Since(checked) < recheckInterval {
			continue
		}
		checked = v.open.trees.Clock.Now()
		if err := v.mayWatch(ctx); err != nil {
			v.send(ctx, errorEvent(err), end.C())
			return
		}
	}
}

// mayWatch returns an error if the user may no longer watch the tree.
func (v *viewer) mayWatch(ctx context.Context) error {
	if err := v.open.trees.CheckAccess(ctx, "get", "", v.open.key.Name); err != nil {
		return err
	}
	return v.open.trees.CheckAccess(ctx, "watch", "tree", v.open.key.Name)
}

// send reports whether the client received the event.
func (v *viewer) send(ctx context.Context, e watch.Event, end <-chan time.Time) bool {
	select {
	case v.events <- e:
		return true
	case <-v.StopChan():
	case <-ctx.Done():
	case <-end:
	}
	return false
}

// await waits for the next snapshot, at most for the given time, and reports whether the watch continues.
func (v *viewer) await(ctx context.Context, next <-chan struct{}, most time.Duration, end <-chan time.Time) bool {
	timer := v.open.trees.Clock.NewTimer(most)
	defer timer.Stop()
	select {
	case <-next:
		return true
	case <-v.open.done:
		return true
	case <-timer.C():
		return true
	case <-v.StopChan():
	case <-ctx.Done():
	case <-end:
	}
	return false
}

// nextEvent returns the event to send for a snapshot, or nil, and whether it is the last one.
func (v *viewer) nextEvent(ctx context.Context, s *snapshot) (e *watch.Event, last bool) {
	switch {
	case s.gone && v.sent != nil:
		return &watch.Event{Type: watch.Deleted, Object: v.sent}, true
	case s.gone:
		return new(errorEvent(apierrors.NewNotFound(rollouts.Resource("rollouts"), v.open.key.Name))), true
	case s.seen == nil:
		return nil, false
	}
	mine, unread := s.seen.ForViewer(v.may)
	if unread {
		v.open.requestUpdate() // the tree has not read these objects, because no other viewer may see them
		return nil, false
	}
	tree, err := newRolloutTree(ctx, mine.Rollout, s.treeFor(mine), s.why)
	if err != nil {
		return new(errorEvent(err)), true
	}
	kind := watch.Modified
	switch {
	case v.sent == nil:
		kind = watch.Added
	case equality.Semantic.DeepEqual(v.sent, tree):
		return nil, false
	}
	v.sent = tree
	return &watch.Event{Type: kind, Object: tree.DeepCopy()}, false
}

// errorEvent returns the event that ends a watch with an error.
func errorEvent(err error) watch.Event {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	return watch.Event{Type: watch.Error, Object: new(known.Status())}
}

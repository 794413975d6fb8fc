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

// viewer is one that watches a tree. It is sent what its user may see, whenever that is
// another than before.
type viewer struct {
	*watch.ProxyWatcher
	events chan watch.Event
	open   *open
	may    func(view.Read) bool
	// user is the name of the viewer's user. number is the viewer's sequence number in its tree.
	user   string
	number int
	// sent is what the viewer has; nil before the first tree.
	sent *rollouts.RolloutTree
}

func newViewer(ctx context.Context, o *open) *viewer {
	events := make(chan watch.Event)
	return &viewer{
		ProxyWatcher: watch.NewProxyWatcher(events), events: events, open: o, user: userOf(ctx),
		may: func(r view.Read) bool { return o.trees.May(ctx, r) },
	}
}

// run sends trees until the viewer leaves or loses its permission, the tree loses its slot, or the
// maximum duration of a watch is over.
func (v *viewer) run(ctx context.Context) {
	defer close(v.events)
	defer v.open.leave(v)
	end := v.open.trees.Clock.NewTimer(longest)
	defer end.Stop()
	checked := v.open.trees.Clock.Now()
	for {
		if why, ended := v.open.ended(); ended {
			if why != nil {
				v.send(ctx, refusal(why), end.C())
			}
			return
		}
		now := v.open.current()
		event, last := v.event(ctx, now)
		if event != nil && !v.send(ctx, *event, end.C()) || last {
			return
		}
		if wait := recheck - v.open.trees.Clock.Since(checked); !v.await(ctx, now.next, wait, end.C()) {
			return
		}
		if v.open.trees.Clock.Since(checked) < recheck {
			continue
		}
		checked = v.open.trees.Clock.Now()
		if err := v.mayWatch(ctx); err != nil {
			v.send(ctx, refusal(err), end.C())
			return
		}
	}
}

// mayWatch refuses users that may not watch the tree any more.
func (v *viewer) mayWatch(ctx context.Context) error {
	if err := v.open.trees.Allowed(ctx, "get", "", v.open.key.Name); err != nil {
		return err
	}
	return v.open.trees.Allowed(ctx, "watch", "tree", v.open.key.Name)
}

// send reports whether the event has been taken.
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

// await waits for the next snapshot or for a time, and reports whether to go on.
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

// event is what to send of a snapshot, if anything, and whether it is the last.
func (v *viewer) event(ctx context.Context, s *snapshot) (e *watch.Event, last bool) {
	switch {
	case s.gone && v.sent != nil:
		return &watch.Event{Type: watch.Deleted, Object: v.sent}, true
	case s.gone:
		return new(refusal(apierrors.NewNotFound(rollouts.Resource("rollouts"), v.open.key.Name))), true
	case s.seen == nil:
		return nil, false
	}
	mine, unread := s.seen.ForViewer(v.may)
	if unread {
		v.open.wake() // nobody was allowed to see it before
		return nil, false
	}
	tree, err := answer(ctx, mine.Rollout, s.tree(mine), s.why)
	if err != nil {
		return new(refusal(err)), true
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

// refusal is an event that says why a watch ends.
func refusal(err error) watch.Event {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	return watch.Event{Type: watch.Error, Object: new(known.Status())}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/cli/draw"
)

// errGone is the error after the Rollout was deleted.
var errGone = errors.New("the Rollout was deleted")

// retryInterval is the pause before a new connection. pollTreeInterval is the interval of reads if the server cannot
// accept another watch.
const retryInterval, pollTreeInterval = 2 * time.Second, 5 * time.Second

// followWatch calls take for each event of a watch until the watch ends.
func followWatch(ctx context.Context, r *restclient.Request, take func(watch.EventType, runtime.Object) error) error {
	w, err := r.Watch(ctx)
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if ctx.Err() != nil {
			break // events that are read after the end are incomplete
		}
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		if err := take(event.Type, event.Object); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// followTree calls took for each state of a Rollout, until the context ends or the Rollout is deleted. It
// restarts a watch that ends. The first event of a new watch contains all changes meanwhile. If the server
// has never answered, trees returns the error.
func (a *app) followTree(ctx context.Context, t *target, took func(*v1beta1.RolloutTree), lost func(error)) error {
	seen := false
	see := func(tree *v1beta1.RolloutTree) {
		seen = true
		took(tree)
	}
	for ctx.Err() == nil {
		err, wait := t.watchTree(ctx, see), retryInterval
		if cannotWatch(err) {
			err, wait = t.pollTree(ctx, see), pollTreeInterval
		}
		switch {
		case seen && apierrors.IsNotFound(err):
			return errGone
		case err != nil && (!seen || !isLost(err)), errors.Is(err, errGone):
			return err
		case err != nil:
			lost(err)
		}
		a.sleep(ctx, wait)
	}
	return ctx.Err()
}

// cannotWatch reports whether the user may not watch, or the server cannot accept a watch.
func cannotWatch(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err) || apierrors.IsMethodNotSupported(err) || isUnserved(err)
}

func (t *target) pollTree(ctx context.Context, took func(*v1beta1.RolloutTree)) error {
	tree, err := read[v1beta1.RolloutTree](ctx, t, "tree")
	if err == nil {
		took(&tree.value)
	}
	return err
}

// watchTree calls took for each event of one watch.
func (t *target) watchTree(ctx context.Context, took func(*v1beta1.RolloutTree)) error {
	r := t.rest.Get().AbsPath(apiPath + "watch/namespaces/" + t.namespace + "/rollouts/" + t.name + "/tree")
	return followWatch(ctx, r, func(kind watch.EventType, object runtime.Object) error {
		if kind == watch.Deleted {
			return errGone
		}
		raw, err := json.Marshal(object)
		if err != nil {
			return err
		}
		tree, err := decode[v1beta1.RolloutTree](raw)
		if err == nil {
			took(&tree.value)
		}
		return err
	})
}

// printChanges prints a line for each change, for outputs that are not terminals.
func (a *app) printChanges(ctx context.Context, t *target) error {
	var last, lastLost string
	known := int64(-1)
	return a.followTree(ctx, t, func(tree *v1beta1.RolloutTree) {
		key := waitKey(&tree.Why)
		if key == last {
			return
		}
		last, lastLost = key, ""
		if past, err := read[v1beta1.RolloutReleases](ctx, t, "history"); err == nil {
			known = a.printDecisions(t.name, past.value.Releases, known)
		}
		a.printLine(a.clock.Now(), t.name, tree.Why.Summary)
	}, func(err error) {
		if text := errorText(err); text != lastLost && ctx.Err() == nil {
			lastLost = text
			a.printNote("%s %s %s", a.clock.Now().Format(time.TimeOnly), t.name, text)
		}
	})
}

func (a *app) printLine(at time.Time, name, text string) {
	fmt.Fprintf(a.Out, "%s %s %s\n", at.In(a.clock.Now().Location()).Format(time.TimeOnly), name, text)
}

// printDecisions prints the decisions of the latest release after the known one, and returns the ID of the
// latest. If known is negative, it prints none.
func (a *app) printDecisions(name string, releases []v1beta1.PastRelease, known int64) int64 {
	latest := max(known, 0)
	if len(releases) == 0 {
		return latest
	}
	for _, d := range releases[0].Decisions {
		if known >= 0 && d.ID > known {
			text := fmt.Sprintf("%s: %s at step %d", d.User, draw.DescribeVerb(&d), d.Step)
			if d.Reason != "" {
				text += ": " + d.Reason
			}
			a.printLine(d.Time.Time, name, text)
		}
		latest = max(latest, d.ID)
	}
	return latest
}

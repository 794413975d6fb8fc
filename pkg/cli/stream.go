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
)

// errGone is that the Rollout was deleted.
var errGone = errors.New("the Rollout was deleted")

// retryEvery is how long a connection that has ended waits, and askEvery is how often a
// server is asked that has no room for a watch.
const retryEvery, askEvery = 2 * time.Second, 5 * time.Second

// follow takes what a watch sends, until it ends.
func follow(ctx context.Context, r *restclient.Request, take func(watch.EventType, runtime.Object) error) error {
	w, err := r.Watch(ctx)
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if ctx.Err() != nil {
			break // what is read then is no event
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

// trees sends each state of a Rollout, until the caller ends it or the Rollout is gone. A
// watch that ends begins again; what is lost meanwhile is in the first answer. Where no
// answer came at all, the error is returned.
func (a *app) trees(ctx context.Context, t *target, took func(*v1beta1.RolloutTree), lost func(error)) error {
	seen := false
	see := func(tree *v1beta1.RolloutTree) {
		seen = true
		took(tree)
	}
	for ctx.Err() == nil {
		err, wait := t.watchTree(ctx, see), retryEvery
		if cannotWatch(err) {
			err, wait = t.askTree(ctx, see), askEvery
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

// cannotWatch reports whether there is no watch: not for this user, not now, or not at all.
func cannotWatch(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err) || apierrors.IsMethodNotSupported(err) || unserved(err)
}

func (t *target) askTree(ctx context.Context, took func(*v1beta1.RolloutTree)) error {
	tree, err := read[v1beta1.RolloutTree](ctx, t, "tree")
	if err == nil {
		took(&tree.it)
	}
	return err
}

// watchTree follows one watch.
func (t *target) watchTree(ctx context.Context, took func(*v1beta1.RolloutTree)) error {
	r := t.rest.Get().AbsPath(apiPath + "watch/namespaces/" + t.namespace + "/rollouts/" + t.name + "/tree")
	return follow(ctx, r, func(kind watch.EventType, object runtime.Object) error {
		if kind == watch.Deleted {
			return errGone
		}
		raw, err := json.Marshal(object)
		if err != nil {
			return err
		}
		tree, err := decode[v1beta1.RolloutTree](raw)
		if err == nil {
			took(&tree.it)
		}
		return err
	})
}

// lines prints a line for each change, where there is no terminal.
func (a *app) lines(ctx context.Context, t *target) error {
	var last, lastLost string
	known := int64(-1)
	return a.trees(ctx, t, func(tree *v1beta1.RolloutTree) {
		key := keyOfWait(&tree.Why)
		if key == last {
			return
		}
		last, lastLost = key, ""
		if past, err := read[v1beta1.RolloutReleases](ctx, t, "history"); err == nil {
			known = a.decisions(t.name, past.it.Releases, known)
		}
		a.line(a.clock.Now(), t.name, tree.Why.Summary)
	}, func(err error) {
		if text := said(err); text != lastLost && ctx.Err() == nil {
			lastLost = text
			a.note("%s %s %s", a.clock.Now().Format(time.TimeOnly), t.name, text)
		}
	})
}

func (a *app) line(at time.Time, name, text string) {
	fmt.Fprintf(a.Out, "%s %s %s\n", at.In(a.clock.Now().Location()).Format(time.TimeOnly), name, text)
}

// decisions prints those of the latest release that are newer than a known one, and
// returns the newest. At first none is known, and none is printed.
func (a *app) decisions(name string, releases []v1beta1.PastRelease, known int64) int64 {
	latest := max(known, 0)
	if len(releases) == 0 {
		return latest
	}
	for _, d := range releases[0].Decisions {
		if known >= 0 && d.ID > known {
			text := fmt.Sprintf("%s of step %d by %s", d.Verb, d.Step, d.User)
			if d.Reason != "" {
				text += ": " + d.Reason
			}
			a.line(d.Time.Time, name, text)
		}
		latest = max(latest, d.ID)
	}
	return latest
}

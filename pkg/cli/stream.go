// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// events reads what a watch sends until it ends.
func events(stream io.Reader, take func(kind string, object []byte) error) error {
	decoder := json.NewDecoder(stream)
	for {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := decoder.Decode(&event); err != nil {
			return err
		}
		if event.Type == "ERROR" {
			var status metav1.Status
			if err := json.Unmarshal(event.Object, &status); err != nil {
				return err
			}
			return &apierrors.StatusError{ErrStatus: status}
		}
		if err := take(event.Type, event.Object); err != nil {
			return err
		}
	}
}

// errGone is that the Rollout was deleted.
var errGone = errors.New("the Rollout was deleted")

// retryEvery is how long a lost connection waits, and askEvery is how often a server is asked
// that has no room for a watch.
const retryEvery, askEvery = 2 * time.Second, 5 * time.Second

// trees sends each state of a Rollout, until the caller ends it or the Rollout is gone. A
// watch that ends begins again; what is lost meanwhile is in the first answer.
func (a *app) trees(ctx context.Context, s *server, name string, took func(*v1beta1.RolloutTree), lost func(error)) error {
	for ctx.Err() == nil {
		err := s.watchTree(ctx, name, took)
		switch {
		case errors.Is(err, errGone), apierrors.IsNotFound(err) && !unserved(err):
			return errGone
		case apierrors.IsForbidden(err), apierrors.IsTooManyRequests(err), unserved(err), apierrors.IsMethodNotSupported(err):
			tree, err := read[v1beta1.RolloutTree](ctx, s, name, "tree")
			if err != nil && !isLost(err) {
				return err
			}
			if err != nil {
				lost(err)
			} else {
				took(&tree.it)
			}
			a.pause(ctx, askEvery)
		case err != nil && !errors.Is(err, io.EOF):
			lost(err)
			a.pause(ctx, retryEvery)
		}
	}
	return ctx.Err()
}

// watchTree follows one watch.
func (s *server) watchTree(ctx context.Context, name string, took func(*v1beta1.RolloutTree)) error {
	stream, err := s.rest.Get().AbsPath(apiPath + "watch/namespaces/" + s.namespace + "/rollouts/" + name + "/tree").Stream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	return events(stream, func(kind string, object []byte) error {
		if kind == "DELETED" {
			return errGone
		}
		tree, err := decode[v1beta1.RolloutTree](object)
		if err == nil {
			took(&tree.it)
		}
		return err
	})
}

// lines prints a line for each change, where there is no terminal.
func (a *app) lines(ctx context.Context, s *server, name string) error {
	var last, lastLost string
	known := int64(-1)
	return a.trees(ctx, s, name, func(t *v1beta1.RolloutTree) {
		w := &t.Why
		key := keyOfWait(w)
		if key == last {
			return
		}
		last, lastLost = key, ""
		if past, err := read[v1beta1.RolloutReleases](ctx, s, name, "history"); err == nil {
			known = a.decisions(name, past.it.Releases, known)
		}
		fmt.Fprintf(a.Out, "%s %s %s\n", a.clock.Now().Format(time.TimeOnly), name, w.Summary)
	}, func(err error) {
		if text := plain(err.Error()); text != lastLost && ctx.Err() == nil {
			lastLost = text
			fmt.Fprintf(a.ErrOut, "%s %s no answer: %s\n", a.clock.Now().Format(time.TimeOnly), name, text)
		}
	})
}

// decisions prints those of the latest release that were not there before.
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
			fmt.Fprintf(a.Out, "%s %s %s\n", d.Time.In(a.clock.Now().Location()).Format(time.TimeOnly), name, text)
		}
		latest = max(latest, d.ID)
	}
	return latest
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// round releases every application once.
func (b *bench) round(ctx context.Context, number int) (*result, error) {
	group, ctx := errgroup.WithContext(ctx)
	if b.place.profiles != "" {
		group.Go(func() error { return b.place.profile(ctx, number) })
	}
	var r *result
	group.Go(func() error {
		var err error
		r, err = b.drive(ctx, b.system, busy, version(number))
		return err
	})
	err := group.Wait()
	return r, err
}

// drive gives every application of a namespace that version, approves its steps,
// and tells what that takes.
func (b *bench) drive(ctx context.Context, s system, namespace, version string) (*result, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	w := &watcher{system: s}
	w.expect(version)
	w.paused = func(name string, step int32) {
		group.Go(func() error { return b.promote(ctx, w.line(name), name, step) })
	}
	if err := w.start(ctx, b, namespace); err != nil {
		return nil, err
	}
	spent, err := b.counter.start(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var r *result
	group.Go(func() error {
		r, err = b.send(ctx, namespace, w)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	r.spent, err = spent.end(ctx)
	return r, err
}

// send changes every application of a namespace, at the rate that is wanted, and
// waits for the end of each.
func (b *bench) send(ctx context.Context, namespace string, w *watcher) (*result, error) {
	r := &result{releases: b.releases, began: time.Now()}
	group, ctx := errgroup.WithContext(ctx)
	for i := range b.releases {
		if b.rate > 0 {
			select {
			case <-ctx.Done():
				return nil, group.Wait()
			case <-time.After(time.Until(r.began.Add(time.Duration(float64(i) / b.rate * float64(time.Second))))):
			}
		}
		name := appName(i)
		t := w.begin(name)
		r.lines = append(r.lines, t)
		group.Go(func() error {
			if err := b.patch(ctx, w.system, namespace, name, w.version); err != nil {
				return fmt.Errorf("changing %s: %w", name, err)
			}
			t.sawAnswer()
			select {
			case <-t.done:
				return nil
			case <-ctx.Done():
				return fmt.Errorf("%s is not Healthy: %w", name, context.Cause(ctx))
			}
		})
	}
	err := group.Wait()
	r.took, r.still = time.Since(r.began), w.standstill()
	return r, err
}

// promote approves a step, again and again if the approval is lost.
func (b *bench) promote(ctx context.Context, t *timeline, name string, step int32) error {
	for {
		t.approving(step)
		if err := b.system.approve(ctx, b, name, step); err != nil {
			return fmt.Errorf("approving step %d of %s: %w", step, name, err)
		}
		select {
		case <-t.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(b.patience):
		}
		if !t.waitsAt(step) {
			return nil
		}
	}
}

// post tells a Rollout a verb.
func (b *bench) post(ctx context.Context, namespace, name, verb, body string) (code int, said []byte, err error) {
	return b.ask(ctx, http.MethodPost, body, http.Header{"Content-Type": {"application/json"}}, namespace, "rollouts", name, verb)
}

// ask sends a request about something in a namespace.
func (b *bench) ask(ctx context.Context, method, body string, header http.Header, namespace string, path ...string) (code int, said []byte, err error) {
	whole, err := url.JoinPath(b.place.config.Host, append([]string{"apis", v1beta1.SchemeGroupVersion.String(), "namespaces", namespace}, path...)...)
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, whole, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header = header
	response, err := b.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	said, err = io.ReadAll(response.Body)
	return response.StatusCode, said, err
}

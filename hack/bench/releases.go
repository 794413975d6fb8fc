// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// result is the result of a round, in which each application was released once.
type result struct {
	releases int
	took     time.Duration
	// standstill is the longest time during which no watched object changed.
	standstill time.Duration
	timelines  []*timeline
	costs      *costs
}

// measureReleases releases each application once. For comparison it also changes as many
// Deployments that no system holds.
func (b *bench) measureReleases(ctx context.Context) (unheld, released *result, err error) {
	if unheld, err = b.measureUnheld(ctx); err != nil {
		return nil, nil, fmt.Errorf("changing Deployments that no system holds: %w", err)
	}
	if err := b.createReleased(ctx); err != nil {
		return nil, nil, fmt.Errorf("creating the applications: %w", err)
	}
	released, err = b.round(ctx, 1)
	return unheld, released, err
}

// measureUnheld changes Deployments without a release, and deletes them.
func (b *bench) measureUnheld(ctx context.Context) (*result, error) {
	s := unheld{b.options}
	if err := b.createApplications(ctx, s, unheldNamespace, b.releases, b.replicas); err != nil {
		return nil, err
	}
	if err := b.waitComplete(ctx, unheldNamespace); err != nil {
		return nil, err
	}
	r, err := b.drive(ctx, s, unheldNamespace, versionImage(1))
	if err != nil {
		return nil, err
	}
	return r, b.deleteNamespace(ctx, unheldNamespace)
}

// round releases a version of each application, with profiles if -profile requests them.
func (b *bench) round(ctx context.Context, version int) (*result, error) {
	group, ctx := errgroup.WithContext(ctx)
	if b.profiles != "" {
		group.Go(func() error { return b.plane.profile(ctx, b.profiles, fmt.Sprintf("round-%d", version)) })
	}
	var r *result
	group.Go(func() error {
		var err error
		r, err = b.drive(ctx, b.system, releasedNamespace, versionImage(version))
		return err
	})
	err := group.Wait()
	return r, err
}

// drive changes the image of all applications of a namespace, approves their steps, waits until
// all are healthy, and measures.
func (b *bench) drive(ctx context.Context, s system, namespace, image string) (*result, error) {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	w := newWatcher(s, image)
	w.onWait = func(name string, step int32) {
		group.Go(func() error { return b.approve(ctx, w.timeline(name), name, step) })
	}
	if err := w.start(ctx, b, namespace); err != nil {
		return nil, err
	}
	costs, err := b.counter.start(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var r *result
	group.Go(func() error {
		r, err = b.changeImages(ctx, namespace, w)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	r.costs, err = costs.end(ctx)
	return r, err
}

// changeImages changes the applications at the rate of -rate, and waits until each is healthy.
func (b *bench) changeImages(ctx context.Context, namespace string, w *watcher) (*result, error) {
	r := &result{releases: b.releases}
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range b.releases {
		if b.rate > 0 {
			due := began.Add(time.Duration(float64(i) / b.rate * float64(time.Second)))
			select {
			case <-ctx.Done():
				return nil, group.Wait()
			case <-time.After(time.Until(due)):
			}
		}
		name := appName(i)
		t := w.begin(name)
		r.timelines = append(r.timelines, t)
		group.Go(func() error {
			if err := b.changeImage(ctx, w.system, namespace, name, w.image); err != nil {
				return fmt.Errorf("changing %s: %w", name, err)
			}
			t.recordAnswer()
			select {
			case <-t.done:
				return nil
			case <-ctx.Done():
				return fmt.Errorf("%s is not healthy: %w", name, context.Cause(ctx))
			}
		})
	}
	err := group.Wait()
	r.took, r.standstill = time.Since(began), w.longestStandstill()
	return r, err
}

// approve approves a step. It sends the approval again if the approval is lost.
func (b *bench) approve(ctx context.Context, t *timeline, name string, step int32) error {
	for {
		t.recordApproval(step)
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

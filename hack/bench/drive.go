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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// round releases every application once.
func (b *bench) round(ctx context.Context, number int) (*result, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	w := &watcher{paused: func(name string, step int32) {}}
	w.expect(version(number))
	w.paused = func(name string, step int32) {
		group.Go(func() error { return b.promote(ctx, w.line(name), name, step) })
	}
	if err := w.start(ctx, b, busy); err != nil {
		return nil, err
	}
	spent, err := b.counter.start(ctx, busy)
	if err != nil {
		return nil, err
	}
	if b.place.profiles != "" {
		group.Go(func() error { return b.place.profile(ctx, number) })
	}
	var r *result
	group.Go(func() error {
		r, err = b.send(ctx, busy, w, func(ctx context.Context, name string, t *timeline) error {
			select {
			case <-t.done:
				return nil
			case <-ctx.Done():
				return fmt.Errorf("%s is not Healthy: %w", name, context.Cause(ctx))
			}
		})
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
func (b *bench) send(ctx context.Context, namespace string, w *watcher, end func(context.Context, string, *timeline) error) (*result, error) {
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
			if err := b.patch(ctx, namespace, name, w.version); err != nil {
				return fmt.Errorf("changing %s: %w", name, err)
			}
			return end(ctx, name, t)
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
		if err := b.approveStep(ctx, name, step); err != nil {
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

func (b *bench) approveStep(ctx context.Context, name string, step int32) error {
	if b.approve == "status" {
		status := "canaryStatus"
		if b.style == "bluegreen" {
			status = "blueGreenStatus"
		}
		body := fmt.Appendf(nil, `{"status":{%q:{"currentStepState":"StepReady"}}}`, status)
		o := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: busy, Name: name}}
		return b.client.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, body))
	}
	code, said, err := b.post(ctx, busy, name, "promote", fmt.Sprintf(`{"expect":{"step":%d}}`, step))
	if err == nil && code != http.StatusCreated {
		err = fmt.Errorf("%d: %s", code, said)
	}
	return err
}

// post tells a Rollout a verb.
func (b *bench) post(ctx context.Context, namespace, name, verb, body string) (code int, said []byte, err error) {
	path, err := url.JoinPath(b.place.config.Host, "apis", v1beta1.SchemeGroupVersion.String(), "namespaces", namespace, "rollouts", name, verb)
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := b.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	said, err = io.ReadAll(response.Body)
	return response.StatusCode, said, err
}

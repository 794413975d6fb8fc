// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/weir-rollouts/weir/pkg/metric"
)

// Question asks for one number per series and window. Window k ends at
// Since + (k+1) * Every. Some servers move a Since that is no multiple of Every. Only counts
// of windows that are over mean anything: a server may tell the numbers of now about the future.
type Question struct {
	Text      string
	Namespace string
	Since     time.Time
	Every     time.Duration
	Windows   int
	// Again asks the source even if an earlier answer is cached, since that one was incomplete.
	Again bool
}

func (q Question) key() string {
	return fmt.Sprintf("%s\x00%d\x00%d\x00%d\x00%s", q.Namespace, q.Since.UnixMilli(), q.Every, q.Windows, q.Text)
}

// Ask answers with a value for each window, or tells why there is none.
func (c *Client) Ask(ctx context.Context, now time.Time, q Question) ([]metric.Series, *Fault) {
	if q.Windows < 1 || q.Windows > maxWindows || q.Every < time.Second {
		return nil, &Fault{Why: fmt.Sprintf("%d windows of %s cannot be asked: at most %d, of a second or more", q.Windows, q.Every, maxWindows), Since: now}
	}
	key := q.key()
	if series, ok := c.kept(key, now); ok && !q.Again {
		return series, nil
	}
	// The first one who asks may go away; the others still wait for the answer.
	flight := c.flights.DoChan(key, func() (any, error) {
		series, err := c.wait(context.WithoutCancel(ctx), q)
		c.keep(key, answer{series, q.Namespace, now.Add(q.Every)}, err, now)
		return series, err
	})
	select {
	case <-ctx.Done():
		return nil, &Fault{Why: "Weir stopped waiting for the answer", Since: now}
	case result := <-flight:
		if result.Err != nil {
			return nil, c.fault(q, result.Err, now)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if delete(c.failing[q.Namespace], q.Text); len(c.failing[q.Namespace]) == 0 {
			delete(c.failing, q.Namespace)
		}
		return result.Val.([]metric.Series), nil
	}
}

// wait sends the query once the source has a free place and the rate limit allows it. Namespaces
// take turns for the places. Only queries with a place wait for the rate limiter, so namespaces
// share the rate fairly, too.
func (c *Client) wait(ctx context.Context, q Question) ([]metric.Series, error) {
	waiting, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	leave, err := c.places.Enter(waiting, q.Namespace)
	if err != nil {
		return nil, refusal("too many questions wait for this source")
	}
	defer leave()
	if err := c.limiter.Wait(waiting); err != nil {
		return nil, refusal("too many questions wait for this source; raise its queriesPerSecond")
	}
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.ask(asking, q)
}

func (c *Client) ask(ctx context.Context, q Question) ([]metric.Series, error) {
	prometheus := promapi.NewAPI(tenant{c.api, c.headers, q.Namespace, c.compareClocks})
	first := q.Since.Truncate(time.Millisecond).Add(q.Every)
	value, warnings, err := prometheus.QueryRange(ctx, q.Text, promapi.Range{Start: first, End: first.Add(time.Duration(q.Windows-1) * q.Every), Step: q.Every}, promapi.WithTimeout(timeout))
	switch matrix, ok := value.(model.Matrix); {
	case err != nil:
		return nil, err
	case len(warnings) > 0:
		return nil, refusal("the answer may be incomplete: " + warnings[0])
	case !ok:
		return nil, refusal("the answer is no matrix, as one by range is")
	case len(matrix) > maxSeries:
		return nil, refusal(fmt.Sprintf("the answer has %d series; at most %d are read", len(matrix), maxSeries))
	default:
		return windows(matrix, first, q)
	}
}

// windows puts each sample into its window.
func windows(matrix model.Matrix, first time.Time, q Question) ([]metric.Series, error) {
	if len(matrix)*q.Windows > maxSamples {
		return nil, refusal(fmt.Sprintf("the answer has %d series of %d windows; at most %d values are read", len(matrix), q.Windows, maxSamples))
	}
	answer := make([]metric.Series, len(matrix))
	for i, stream := range matrix {
		if stream == nil || len(stream.Histograms) > 0 {
			return nil, refusal("the answer has native histograms; ask for the buckets of a classic one")
		}
		answer[i] = metric.Series{Labels: map[string]string{}, Values: make([]metric.Value, q.Windows)}
		for name, value := range stream.Metric {
			answer[i].Labels[string(name)] = string(value)
		}
		if err := fill(answer[i].Values, stream.Values, first, q.Every); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func fill(windows []metric.Value, samples []model.SamplePair, first time.Time, every time.Duration) error {
	for _, sample := range samples {
		since := sample.Timestamp.Time().Sub(first)
		k := int(since / every)
		if since < 0 || since%every != 0 || k >= len(windows) {
			return refusal("the answer is about other times than those that were asked for")
		}
		number := float64(sample.Value)
		windows[k] = metric.Value{Number: number, Known: true}
		if math.IsNaN(number) || math.IsInf(number, 0) {
			windows[k] = metric.Value{Number: math.NaN()}
		}
	}
	return nil
}

func (c *Client) kept(key string, now time.Time) ([]metric.Series, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, ok := c.answers[key]
	return kept.series, ok && now.Before(kept.until)
}

// keep caches an answer for other checks with the same query in this window, if the cache limits
// of all and of this namespace allow it. Without a cached answer the source is queried again.
func (c *Client) keep(key string, a answer, err error, now time.Time) {
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.answers, func(_ string, old answer) bool { return !now.Before(old.until) })
	all, values, mine, myValues := len(c.answers)+1, a.values(), 1, a.values()
	for _, other := range c.answers {
		values += other.values()
		if other.namespace == a.namespace {
			mine++
			myValues += other.values()
		}
	}
	if all <= maxKept && values <= maxValues && mine <= ofKept && myValues <= ofValues {
		c.answers[key] = a
	}
}

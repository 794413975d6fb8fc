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

// RangeQuery asks for one number per series and window. Window k ends at Start + (k+1)*Step. Some
// servers move a Start that is not a multiple of Step. Only windows that have ended are meaningful:
// a server may return current numbers for the future.
type RangeQuery struct {
	PromQL    string
	Namespace string
	Start     time.Time
	Step      time.Duration
	Windows   int
	// BypassCache queries the source even if an earlier answer is cached, because that answer
	// was incomplete.
	BypassCache bool
}

func (q RangeQuery) key() string {
	return fmt.Sprintf("%s\x00%d\x00%d\x00%d\x00%s", q.Namespace, q.Start.UnixMilli(), q.Step, q.Windows, q.PromQL)
}

// Query returns a value for each window, or a fault.
func (c *Client) Query(ctx context.Context, now time.Time, q RangeQuery) ([]metric.Series, *Fault) {
	if q.Windows < 1 || q.Windows > maxWindows || q.Step < time.Second {
		return nil, &Fault{Why: fmt.Sprintf("%d windows of %s cannot be asked: at most %d, of a second or more", q.Windows, q.Step, maxWindows), Since: now}
	}
	key := q.key()
	if series, ok := c.cached(key, now); ok && !q.BypassCache {
		return series, nil
	}
	// The first caller may stop waiting. Other callers still wait for the answer.
	flight := c.inFlight.DoChan(key, func() (any, error) {
		series, err := c.queryWithinLimits(context.WithoutCancel(ctx), q)
		c.cache(key, cachedSeries{series, q.Namespace, now.Add(q.Step)}, err, now)
		return series, err
	})
	select {
	case <-ctx.Done():
		return nil, &Fault{Why: "Weir stopped waiting for the answer", Since: now}
	case result := <-flight:
		if result.Err != nil {
			return nil, c.recordFault(q, result.Err, now)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if delete(c.failingSince[q.Namespace], q.PromQL); len(c.failingSince[q.Namespace]) == 0 {
			delete(c.failingSince, q.Namespace)
		}
		return result.Val.([]metric.Series), nil
	}
}

// queryWithinLimits sends the query once the source has a free place and the rate limit allows it.
// Namespaces take turns for the places. Only queries with a place wait for the rate limiter, so
// namespaces share the rate fairly, too.
func (c *Client) queryWithinLimits(ctx context.Context, q RangeQuery) ([]metric.Series, error) {
	waiting, cancel := context.WithTimeout(ctx, maxQueueTime)
	defer cancel()
	leave, err := c.semaphore.Acquire(waiting, q.Namespace)
	if err != nil {
		return nil, reason("too many questions wait for this source")
	}
	defer leave()
	if err := c.limiter.Wait(waiting); err != nil {
		return nil, reason("too many questions wait for this source; raise its queriesPerSecond")
	}
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.queryRange(asking, q)
}

func (c *Client) queryRange(ctx context.Context, q RangeQuery) ([]metric.Series, error) {
	prometheus := promapi.NewAPI(namespaceClient{c.api, c.headers, q.Namespace, c.compareClocks})
	first := q.Start.Truncate(time.Millisecond).Add(q.Step)
	value, warnings, err := prometheus.QueryRange(ctx, q.PromQL, promapi.Range{Start: first, End: first.Add(time.Duration(q.Windows-1) * q.Step), Step: q.Step}, promapi.WithTimeout(timeout))
	switch matrix, ok := value.(model.Matrix); {
	case err != nil:
		return nil, err
	case len(warnings) > 0:
		return nil, reason("the answer may be incomplete: " + warnings[0])
	case !ok:
		return nil, reason("the answer is no matrix, as one by range is")
	case len(matrix) > maxSeries:
		return nil, reason(fmt.Sprintf("the answer has %d series; at most %d are read", len(matrix), maxSeries))
	default:
		return toSeries(matrix, first, q)
	}
}

// toSeries puts each sample into its window.
func toSeries(matrix model.Matrix, first time.Time, q RangeQuery) ([]metric.Series, error) {
	if len(matrix)*q.Windows > maxSamples {
		return nil, reason(fmt.Sprintf("the answer has %d series of %d windows; at most %d values are read", len(matrix), q.Windows, maxSamples))
	}
	answer := make([]metric.Series, len(matrix))
	for i, stream := range matrix {
		if stream == nil || len(stream.Histograms) > 0 {
			return nil, reason("the answer has native histograms; ask for the buckets of a classic one")
		}
		answer[i] = metric.Series{Labels: map[string]string{}, Values: make([]metric.Value, q.Windows)}
		for name, value := range stream.Metric {
			answer[i].Labels[string(name)] = string(value)
		}
		if err := fillWindows(answer[i].Values, stream.Values, first, q.Step); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func fillWindows(windows []metric.Value, samples []model.SamplePair, first time.Time, every time.Duration) error {
	for _, sample := range samples {
		since := sample.Timestamp.Time().Sub(first)
		k := int(since / every)
		if since < 0 || since%every != 0 || k >= len(windows) {
			return reason("the answer is about other times than those that were asked for")
		}
		number := float64(sample.Value)
		windows[k] = metric.Value{Number: number, Known: true}
		if math.IsNaN(number) || math.IsInf(number, 0) {
			windows[k] = metric.Value{Number: math.NaN()}
		}
	}
	return nil
}

func (c *Client) cached(key string, now time.Time) ([]metric.Series, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, ok := c.answers[key]
	return kept.series, ok && now.Before(kept.until)
}

// cache stores an answer for other checks with the same query in this window, unless the cache
// limits, in total or for this namespace, are reached. Without a cached answer the source is
// queried again.
func (c *Client) cache(key string, a cachedSeries, err error, now time.Time) {
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.answers, func(_ string, old cachedSeries) bool { return !now.Before(old.until) })
	all, values, mine, myValues := len(c.answers)+1, a.values(), 1, a.values()
	for _, other := range c.answers {
		values += other.values()
		if other.namespace == a.namespace {
			mine++
			myValues += other.values()
		}
	}
	if all <= maxAnswers && values <= maxValues && mine <= maxAnswersPerNamespace && myValues <= maxValuesPerNamespace {
		c.answers[key] = a
	}
}

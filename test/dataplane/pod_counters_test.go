// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic && metrics

package dataplane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// judgedByScrapedPods checks versions by the counters of their pods. Each pod is scraped at another
// time and at the interval of most clusters, so that the windows end at different times for the
// pods.
func judgedByScrapedPods(t *testing.T) {
	servePods(t)
	for i, seconds := range []int{15, 30} {
		startServer(t, fmt.Sprintf("every-%d", seconds), 8004+i, fmt.Sprintf(scrapePods, seconds, podsPort))
	}
	const late = 8006
	relay(t, late, 40*time.Second)
	startServer(t, "late", late, "{}", "--web.enable-remote-write-receiver")
	startServer(t, "writer", 8007, fmt.Sprintf(scrapePods, 5, podsPort)+fmt.Sprintf(writeLate, relayPort))
	for _, seconds := range []int32{15, 30} {
		t.Run(fmt.Sprintf("an outage of both versions, scraped every %d s", seconds), func(t *testing.T) {
			t.Parallel()
			outageOfBoth(t, seconds)
		})
	}
	t.Run("a container restarts", func(t *testing.T) {
		t.Parallel()
		containerRestarts(t)
	})
	t.Run("a source is behind", func(t *testing.T) {
		t.Parallel()
		sourceBehind(t)
	})
}

// podCounterAnalysis is an analysis of the counters of pods, with this window in seconds.
func podCounterAnalysis(source string, every int32) *v1beta1.Analysis {
	return &v1beta1.Analysis{
		EverySeconds: new(every), AtLeastSeconds: new(int32(180)), WithinSeconds: new(int32(600)),
		Checks: []v1beta1.Check{{Name: "failures", Query: &v1beta1.QueryCheck{
			// Pods of the same version have the same hash in all namespaces.
			Source: source, Bad: `http_requests_total{namespace="$namespace",pod=~"$pods",code="500"}`, Total: `http_requests_total{namespace="$namespace",pod=~"$pods"}`,
		}}},
	}
}

// checkNotAborted checks that the release is not aborted while this many requests are answered.
func (a *app) checkNotAborted(l *requestLoad, asked time.Time, many int) {
	a.t.Helper()
	a.eventually(fmt.Sprintf("%d seconds of requests are answered", many/perSecond), func(ctx context.Context) error {
		if a.statusSatisfies(aborting)(ctx) == nil {
			r := a.report()
			a.t.Fatalf("a version as good as the stable one was aborted: %+v", r.Status.Decisions)
		}
		return answered(l, asked, many)(ctx)
	})
}

// outageOfBoth makes both versions fail a third of the requests for 20 seconds.
func outageOfBoth(t *testing.T, seconds int32) {
	namespace := fmt.Sprintf("outage-%d", seconds)
	testEnv.pods.fail(namespace, 0.005)
	a, l := analysedApp(t, namespace, "20%", podCounterAnalysis(fmt.Sprintf("every-%d", seconds), seconds))
	asked := a.measured("v2", nil)
	a.checkNotAborted(l, asked, 50*perSecond)
	testEnv.pods.fail(namespace, 0.33)
	a.checkNotAborted(l, asked, 70*perSecond)
	testEnv.pods.fail(namespace, 0.005)
	a.checkNotAborted(l, asked, 190*perSecond)
	if c := checkOf(a.report(), "failures"); c == nil || c.New == nil || c.New.Total == 0 {
		t.Errorf("nothing was measured: %+v", c)
	}
}

// containerRestarts restarts a container of the new version during a step. Its counters start at
// zero, and its first requests fail.
func containerRestarts(t *testing.T) {
	a, l := analysedApp(t, "restarts", "20%", podCounterAnalysis("every-15", 15))
	asked := a.measured("v2", nil)
	a.checkNotAborted(l, asked, 80*perSecond)
	restarted := 0
	for _, c := range testEnv.pods.serving() {
		if c.namespace == a.namespace && c.version == "v2" {
			c.restart()
			restarted++
		}
	}
	if restarted == 0 {
		t.Fatal("no pod of the new version serves")
	}
	a.checkNotAborted(l, asked, 190*perSecond)
	if c := checkOf(a.report(), "failures"); c == nil || c.New == nil || c.New.Total == 0 {
		t.Errorf("nothing was measured: %+v", c)
	}
}

// sourceBehind has a source that gets its samples 40 seconds late. Incomplete windows are not
// evaluated, the message reports the delay, and the bad version is aborted.
func sourceBehind(t *testing.T) {
	analysis := podCounterAnalysis("late", 5)
	analysis.AtLeastSeconds = new(int32(15))
	a, l := analysedApp(t, "behind", "20%", analysis)
	asked := a.measured("fails20", nil)
	a.eventually("the message reports the delay", a.statusSatisfies(func(s *v1beta1.RolloutStatus) bool {
		return strings.Contains(s.Message, "source late is ") && strings.Contains(s.Message, " s behind")
	}))
	if _, took := a.abortedBy("failures", "fails20", l, asked); took < 40*time.Second {
		t.Errorf("the abort took %s, although samples arrive 40 s late", took)
	}
}

// restart restarts the container of a pod, which fails all requests for a second.
func (c *counters) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ok, c.bad, c.failingUntil = 0, 0, time.Now().Add(time.Second)
}

// serving returns the counters of the pods that serve.
func (p *podServers) serving() []*counters {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.counters))
}

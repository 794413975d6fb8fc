// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic

package dataplane

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

const (
	stable, update = "v1", "v2"
	// window is the number of requests for which a share is checked, and minRequests the number if
	// all requests go to one version, in which case there is no sampling error.
	window, minRequests = 1000, 400
	// sigmas is the allowed deviation of a share, in standard deviations of independent requests.
	// One of 10 000 shares deviates further by chance.
	sigmas = 4
)

// scenario is a release with all its moves.
type scenario struct {
	// strategy is nil for a native rolling update without a Rollout.
	strategy *v1beta1.Strategy
	moves    []move
	// podsDrain makes pods serve for a while after their deletion.
	podsDrain bool
	// withoutWeir only reports lost requests, and does not fail the test.
	withoutWeir bool
}

// move is an action of a user and the expected result.
type move struct {
	what string
	do   func(*app)
	// reach is the condition that the action leads to. From then on requests must be split like
	// this.
	reach func(*app) func(context.Context) error
	split split
}

// split is the expected share of the update version: of requests with the header, and of the
// others.
type split struct{ marked, others float64 }

func (s split) needs() int {
	if s == all(0) || s == all(1) {
		return minRequests
	}
	return window
}

func all(share float64) split { return split{marked: share, others: share} }

// scenarioRun runs a scenario and measures it.
type scenarioRun struct {
	app      *app
	load     *requestLoad
	compared bool
	report   strings.Builder
}

func runScenario(t *testing.T, namespace string, s scenario) {
	t.Helper()
	a := start(t, namespace, s)
	j := &scenarioRun{app: a, load: startLoad(t.Context(), namespace), compared: s.withoutWeir}
	defer j.load.stop()
	a.eventually("the proxy knows the route", func(context.Context) error { return j.awaitRoute() })
	fmt.Fprintf(&j.report, "%-24s %8s %5s %7s  %-20s %8s %8s %10s\n",
		"move", "requests", "lost", "retried", "share of update", "reached", "first", "other last")
	j.measure(move{what: "before", do: func(*app) {}, reach: func(a *app) func(context.Context) error { return a.runs(stable) }})
	for _, m := range s.moves {
		j.measure(m)
	}
	j.load.stop()
	t.Logf("%s:\n%s", namespace, j.report.String())
	if err := testEnv.pods.serverError(); err != nil {
		t.Errorf("the pods themselves: %v", err)
	}
}

// awaitRoute waits until the latest requests are answered, because the proxy may not have loaded a
// new route yet.
func (j *scenarioRun) awaitRoute() error {
	shots := j.load.resultsSince(time.Now().Add(-time.Second))
	if len(shots) < perSecond/2 {
		return fmt.Errorf("%d requests were answered in a second", len(shots))
	}
	for _, s := range shots {
		if s.fault != "" {
			return fmt.Errorf("a request failed: %s", s.fault)
		}
	}
	return nil
}

// measure makes a move, waits for its effect, and counts requests from then on.
func (j *scenarioRun) measure(m move) {
	j.app.t.Helper()
	met := j.updatePods()
	asked := time.Now()
	m.do(j.app)
	j.app.eventually(m.what+" is done", m.reach(j.app))
	reached := time.Now()
	j.app.eventually("enough requests are answered", func(context.Context) error {
		if n := len(j.load.resultsSince(reached)); n < m.split.needs() {
			return fmt.Errorf("%d of %d", n, m.split.needs())
		}
		return nil
	})
	shots := j.load.resultsSince(asked)
	plain, retried := j.countLost(m, asked, shots)
	fmt.Fprintf(&j.report, "%-24s %8d %5d %7d  ", m.what, len(shots), plain, retried)
	j.checkShares(m, reached, shots)
	j.reportTimes(m, asked, reached, met, shots)
}

// countLost counts the requests that failed, on each port.
func (j *scenarioRun) countLost(m move, asked time.Time, shots []requestResult) (plain, retried int) {
	j.app.t.Helper()
	count := map[string]int{}
	for _, s := range shots {
		switch {
		case s.fault == "":
			continue
		case s.retried:
			retried++
		default:
			plain++
		}
		if what := fmt.Sprintf("retried %t: %s", s.retried, s.fault); count[what] == 0 {
			j.app.t.Logf("%s: lost %v after it: %s", m.what, s.sent.Sub(asked).Round(time.Millisecond), what)
			count[what]++
		}
	}
	if plain+retried > 0 && !j.compared {
		j.app.t.Errorf("%s: %d requests were lost, and %d that were tried again", m.what, plain, retried)
	}
	return plain, retried
}

// checkShares checks the requests that were sent after a move took effect.
func (j *scenarioRun) checkShares(m move, reached time.Time, shots []requestResult) {
	j.app.t.Helper()
	var sent, updated struct{ marked, others int }
	for _, s := range shots {
		if s.sent.Before(reached) || s.fault != "" {
			continue
		}
		of, by := &sent.others, &updated.others
		if s.marked {
			of, by = &sent.marked, &updated.marked
		}
		*of++
		if s.version == update {
			*by++
		}
	}
	if m.split.marked == m.split.others {
		fmt.Fprintf(&j.report, "%-20s", j.checkShare(m.what, sent.marked+sent.others, updated.marked+updated.others, m.split.others))
		return
	}
	with := j.checkShare(m.what+", with the header", sent.marked, updated.marked, m.split.marked)
	without := j.checkShare(m.what+", without it", sent.others, updated.others, m.split.others)
	fmt.Fprintf(&j.report, "%-20s", strings.Fields(with)[0]+" / "+strings.Fields(without)[0])
}

// checkShare checks how many of the requests the update version answered.
func (j *scenarioRun) checkShare(what string, sent, updated int, want float64) string {
	j.app.t.Helper()
	got, bound := float64(updated)/float64(max(1, sent)), tolerance(want, sent)
	if math.Abs(got-want) > bound || sent == 0 {
		j.app.t.Errorf("%s: %d of %d requests were answered by %s, want %.1f%% ±%.1f", what, updated, sent, update, 100*want, 100*bound)
	}
	return fmt.Sprintf("%.1f%% of %.0f%% ±%.1f", 100*got, 100*want, 100*bound)
}

// tolerance is the allowed sampling error, which is 0 if all requests go to one version.
func tolerance(share float64, requests int) float64 {
	return sigmas * math.Sqrt(share*(1-share)/float64(max(1, requests)))
}

// reportTimes prints the time until Weir reported that the move was done, until the first answer of
// a new pod of the update version, and until the last answer of a version that should get no
// requests.
func (j *scenarioRun) reportTimes(m move, asked, reached time.Time, met map[string]bool, shots []requestResult) {
	var first, last time.Time
	for _, s := range shots {
		if s.fault != "" {
			continue
		}
		if s.version == update && !met[s.pod] && (first.IsZero() || s.answered.Before(first)) {
			first = s.answered
		}
		other := m.split == all(1) && s.version == stable || m.split == all(0) && s.version == update
		if other && s.answered.After(last) {
			last = s.answered
		}
	}
	fmt.Fprintf(&j.report, " %8s %8s %10s\n", after(asked, reached), after(asked, first), after(asked, last))
}

func after(from, to time.Time) string {
	if to.IsZero() {
		return "-"
	}
	return to.Sub(from).Round(10 * time.Millisecond).String()
}

// updatePods returns the pods of the update version that have answered.
func (j *scenarioRun) updatePods() map[string]bool {
	met := map[string]bool{}
	for _, s := range j.load.resultsSince(time.Time{}) {
		if s.version == update {
			met[s.pod] = true
		}
	}
	return met
}

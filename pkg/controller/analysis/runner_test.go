// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/controller/analysis"
	"github.com/weir-rollouts/weir/pkg/judge"
	"github.com/weir-rollouts/weir/pkg/metric"
	"github.com/weir-rollouts/weir/pkg/planner"
	"github.com/weir-rollouts/weir/pkg/source"
)

// prometheus is a source: in each window the new version has 10 requests of which bad
// fail, and stable 90. It answers while it is not down.
type prometheus struct {
	bad  float64
	down bool
	// behind is how late the source gets its samples.
	behind time.Duration
	// noTargets reports whether the namespace has no targets.
	noTargets bool
	// scrape is the interval of scrapes in seconds, 15 if it is not set.
	scrape int64
	// unscraped reports whether the pods have no series.
	unscraped bool
	// series are those of its answers, if they are set.
	series func(r analysis.RangeQuery) []metric.Series
	// buckets are the boundaries of its histograms.
	buckets []string
	asked   []analysis.RangeQuery
	// answer is what a Service answers, and outcome how a job goes; each says its windows or jobs.
	answer  source.Answer
	outcome analysis.Outcome
	fault   error
	// missing reports whether the MetricSource does not exist.
	missing bool
	windows []time.Time
	jobs    []analysis.Job
}

func (p *prometheus) ask(_ context.Context, r analysis.RangeQuery) ([]metric.Series, judge.Fault) {
	p.asked = append(p.asked, r)
	if p.down {
		return nil, judge.Fault{Why: "connection refused", Since: time.Now()}
	}
	newest := metric.Series{Labels: map[string]string{"weir_version": "newest"}}
	for i := range r.Windows {
		at := r.Start.Add(time.Duration(i+1) * r.Step)
		if last := time.Now().Add(-p.behind); at.After(last) {
			at = last
		}
		newest.Values = append(newest.Values, metric.Value{Number: float64(at.UnixMilli()) / 1000, Known: true})
	}
	switch {
	case p.unscraped:
		return nil, judge.Fault{}
	case strings.Contains(r.PromQL, "up{") && p.noTargets:
		return nil, judge.Fault{}
	case strings.Contains(r.PromQL, "up{"):
		return []metric.Series{newest}, judge.Fault{}
	case strings.Contains(r.PromQL, "weir_pod"):
		return p.pods(), judge.Fault{}
	case strings.Contains(r.PromQL, `"gap"`):
		return []metric.Series{p.gap(r), newest}, judge.Fault{}
	case p.series != nil && strings.Contains(r.PromQL, "newest"):
		return append(p.series(r), newest), judge.Fault{}
	case p.series != nil:
		return p.series(r), judge.Fault{}
	}
	line := func(version, status string, n float64) metric.Series {
		s := metric.Series{Labels: map[string]string{"weir_version": version, "status": status}}
		for range r.Windows {
			s.Values = append(s.Values, metric.Value{Number: n, Known: true})
		}
		return s
	}
	if strings.Contains(r.PromQL, "_bucket") {
		var all []metric.Series
		for i, le := range p.buckets {
			for _, version := range []string{"new", "stable"} {
				s := line(version, "", float64(i))
				s.Labels["le"] = le
				all = append(all, s)
			}
		}
		return append(all, newest), judge.Fault{}
	}
	return []metric.Series{line("new", "200", 10-p.bad), line("new", "500", p.bad), line("stable", "200", 90), newest}, judge.Fault{}
}

// gap is the time between the samples of the pods, which are scraped every 15 seconds.
func (p *prometheus) gap(r analysis.RangeQuery) metric.Series {
	s := metric.Series{Labels: map[string]string{"weir_version": "gap"}}
	for i := range r.Windows {
		value := metric.Value{Known: true}
		if scrape := cmp.Or(p.scrape, 15); r.Start.Add(time.Duration(i+1)*r.Step).Unix()%scrape < int64(r.Step/time.Second) {
			value.Number = float64(scrape) + 0.002
		}
		s.Values = append(s.Values, value)
	}
	return s
}

// pods are the requests of the pods of stable in the hour before the release.
func (p *prometheus) pods() []metric.Series {
	var all []metric.Series
	for pod, counts := range map[string][2]float64{"web-77c4-a": {1000, 2}, "web-77c4-b": {900, 40}} {
		for i, class := range []string{"total", "bad"} {
			all = append(all, metric.Series{Labels: map[string]string{"weir_pod": pod, "weir_class": class}, Values: []metric.Value{{Number: counts[i], Known: true}}})
		}
	}
	return all
}

// Source implements analysis.Sources.
func (p *prometheus) Source(_ context.Context, name, namespace string) (*analysis.Source, error) {
	if name != "default" || p.missing {
		return nil, errors.New("metricsource " + name + " does not exist")
	}
	return &analysis.Source{Query: p.ask, Lag: time.Second, RawQueries: true}, nil
}

// ResolveCheck implements analysis.Sources.
func (p *prometheus) ResolveCheck(_ context.Context, _ string, c rollouts.Check) (rollouts.Check, bool, error) {
	return c, false, nil
}

// QueryService implements analysis.Sources.
func (p *prometheus) QueryService(_ context.Context, _ string, _ rollouts.HTTPCheck, window analysis.Window) (source.Answer, error) {
	p.windows = append(p.windows, window.Start)
	return p.answer, p.fault
}

// RunJob implements analysis.Sources.
func (p *prometheus) RunJob(_ context.Context, j analysis.Job) (analysis.Outcome, error) {
	p.jobs = append(p.jobs, j)
	return p.outcome, p.fault
}

var (
	web     = types.NamespacedName{Namespace: "shop", Name: "web"}
	rate    = rollouts.Check{SuccessRate: new("99%")}
	subject = analysis.Subject{UID: "uid", Routers: []string{"Ingress/nginx"}, Release: metric.Release{Namespace: "shop", Workload: "web", Ingresses: []string{"web"}}}
)

func rollout(checks ...rollouts.Check) *rollouts.Rollout {
	r := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid"}}
	r.Spec.Strategy.Canary = &rollouts.Release{Analysis: &rollouts.Analysis{Checks: checks}}
	return r
}

// run runs a test with a runner, in a synctest bubble.
func run(t *testing.T, p analysis.Sources, test func(m *analysis.Runner, woken chan event.GenericEvent)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		woken := make(chan event.GenericEvent, 1000)
		m, stop := start(t, p, woken)
		test(m, woken)
		stop()
	})
}

// start starts a runner, which ends when stop is called.
func start(t *testing.T, p analysis.Sources, woken chan event.GenericEvent) (m *analysis.Runner, stop func()) {
	t.Helper()
	m = analysis.New(p, clock.RealClock{}, woken)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Start(ctx) }()
	return m, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// counts are what was measured in the windows of the one check.
func counts(t *testing.T, m *analysis.Runner, r *rollouts.Rollout) (got []judge.Pair, fault string) {
	t.Helper()
	measured, err := m.Measurements(t.Context(), r)
	if err != nil || len(measured) != 1 {
		t.Fatalf("measured %d checks: %v", len(measured), err)
	}
	for _, w := range measured[0].Data.Windows {
		got = append(got, w.Counts[0])
	}
	return got, measured[0].Data.Fault.Why
}

// TestWindows checks that each window is queried once, when it has ended and the source has its
// samples. The hour before the release is queried once.
func TestWindows(t *testing.T) {
	p := &prometheus{bad: 1}
	run(t, p, func(m *analysis.Runner, woken chan event.GenericEvent) {
		r, began := rollout(rate), time.Now().Truncate(5*time.Second)
		m.SetRequests(web, subject, []planner.MeasurementRequest{{Check: rate, Began: began, From: began, Every: 5 * time.Second}})
		<-time.After(12 * time.Second)
		synctest.Wait()
		each := judge.Pair{New: judge.Count{Total: 10, Bad: 1}, Old: judge.Count{Total: 90}}
		got, fault := counts(t, m, r)
		if diff := gocmp.Diff([]judge.Pair{each, each}, got); diff != "" || fault != "" {
			t.Errorf("windows (-want +got), fault %q:\n%s", fault, diff)
		}
		past := 0
		for _, r := range p.asked {
			if r.Start.Before(began) && r.Step == 5*time.Second {
				past += r.Windows
			}
		}
		if past != 720 || len(woken) == 0 {
			t.Errorf("asked for %d windows of the hour before, and woke %d times", past, len(woken))
		}
	})
}

// TestOutage checks that an outage of the source is reported once, and that missed windows are
// queried afterwards.
func TestOutage(t *testing.T) {
	p := &prometheus{down: true}
	run(t, p, func(m *analysis.Runner, woken chan event.GenericEvent) {
		r, began := rollout(rate), time.Now().Truncate(5*time.Second)
		m.SetRequests(web, subject, []planner.MeasurementRequest{{Check: rate, Began: began, From: began, Every: 5 * time.Second}})
		<-time.After(time.Minute)
		synctest.Wait()
		if got, fault := counts(t, m, r); len(got) != 0 || fault != "connection refused" || len(woken) != 1 {
			t.Errorf("%d windows, fault %q, woken %d times", len(got), fault, len(woken))
		}
		p.down = false
		<-time.After(time.Minute)
		synctest.Wait()
		if got, fault := counts(t, m, r); len(got) < 20 || fault != "" {
			t.Errorf("%d windows after the outage, fault %q", len(got), fault)
		}
	})
}

// TestNewSource checks that a MetricSource that is created is noticed at once: by a check of a release before its first window
// has ended, and by a check that is tried before a release.
func TestNewSource(t *testing.T) {
	for name, test := range map[string]struct {
		question func(began time.Time) planner.MeasurementRequest
	}{
		"release": {func(began time.Time) planner.MeasurementRequest {
			return planner.MeasurementRequest{Check: rate, Began: began, From: began, Every: time.Hour}
		}},
		"trial": {func(began time.Time) planner.MeasurementRequest {
			from := began.Truncate(time.Hour).Add(-24 * time.Hour)
			return planner.MeasurementRequest{Check: rate, Began: from, From: from, Every: 2 * time.Minute, Try: true}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &prometheus{missing: true}
			run(t, p, func(m *analysis.Runner, woken chan event.GenericEvent) {
				r := rollout(rate)
				m.SetRequests(web, subject, []planner.MeasurementRequest{test.question(time.Now().Truncate(5 * time.Second))})
				<-time.After(20 * time.Minute) // the next attempt is a minute, or ten minutes, away
				synctest.Wait()
				if _, fault := counts(t, m, r); fault != "metricsource default does not exist" || len(woken) != 1 {
					t.Fatalf("fault %q, woken %d times", fault, len(woken))
				}
				p.missing = false
				m.RetrySource("other")
				synctest.Wait()
				if _, fault := counts(t, m, r); fault == "" {
					t.Error("another source is not that of the check")
				}
				m.RetrySource("default")
				synctest.Wait()
				if _, fault := counts(t, m, r); fault != "" || len(woken) != 2 {
					t.Errorf("fault %q of a source that exists, woken %d times", fault, len(woken))
				}
			})
		})
	}
}

// TestForget checks that answers are dropped when there is no question any more. A Rollout that was
// created again has no answers of its predecessor.
func TestForget(t *testing.T) {
	p := &prometheus{}
	run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
		r, began := rollout(rate), time.Now().Truncate(5*time.Second)
		question := []planner.MeasurementRequest{{Check: rate, Began: began, From: began, Every: 5 * time.Second}}
		m.SetRequests(web, subject, question)
		<-time.After(12 * time.Second)
		synctest.Wait()
		other := rollout(rate)
		other.UID = "other"
		if got, _ := counts(t, m, other); len(got) != 0 {
			t.Errorf("another Rollout has %d windows", len(got))
		}
		m.SetRequests(web, subject, nil)
		asked := len(p.asked)
		<-time.After(time.Minute)
		synctest.Wait()
		if got, _ := counts(t, m, r); len(got) != 0 || len(p.asked) != asked {
			t.Errorf("%d windows are kept, and %d questions came after", len(got), len(p.asked)-asked)
		}
	})
}

// TestAnotherAttempt checks that a new attempt has no windows of the previous attempt.
func TestAnotherAttempt(t *testing.T) {
	p := &prometheus{bad: 10}
	run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
		r, began := rollout(rate), time.Now().Truncate(5*time.Second)
		m.SetRequests(web, subject, []planner.MeasurementRequest{{Check: rate, Began: began, From: began, Every: 5 * time.Second}})
		<-time.After(12 * time.Second)
		synctest.Wait()
		p.bad = 0
		again := time.Now().Truncate(5 * time.Second).Add(5 * time.Second)
		m.SetRequests(web, subject, []planner.MeasurementRequest{{Check: rate, Began: again, From: again, Every: 5 * time.Second}})
		if measured, err := m.Measurements(t.Context(), r); err != nil || measured[0].Answered {
			t.Errorf("the attempt begins with %+v, %v", measured, err)
		}
		<-time.After(12 * time.Second)
		synctest.Wait()
		got, _ := counts(t, m, r)
		for _, pair := range got {
			if pair.New.Bad > 0 {
				t.Errorf("the attempt has %+v", pair)
			}
		}
	})
}

// TestTryOneVersion checks that each router's row can be queried before a release, when there is
// one version.
func TestTryOneVersion(t *testing.T) {
	version := metric.Version{Pods: "web-77c4-.*", Service: metric.Service{Name: "web", Ports: []string{"80", "http"}}}
	for _, router := range []string{"", "Ingress/nginx", "TraefikService", "HTTPRoute", "VirtualService"} {
		for _, check := range []rollouts.Check{rate, {Latency: &rollouts.LatencyCheck{Share: "99%", BelowMilliseconds: 500}}, {AsGoodAs: "Stable"}} {
			t.Run(router+" "+rollouts.CheckName(&check), func(t *testing.T) {
				p := &prometheus{}
				run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
					r, began := rollout(check), time.Now().Truncate(time.Hour).Add(-24*time.Hour)
					of := metric.Release{Namespace: "shop", Workload: "web", Ingresses: []string{"web"}, New: version, Stable: version, StableOnly: true}
					m.SetRequests(web, analysis.Subject{UID: "uid", Routers: []string{router}, Release: of}, []planner.MeasurementRequest{{Check: check, Began: began, From: began, Every: 2 * time.Minute, Try: true}})
					<-time.After(time.Second)
					synctest.Wait()
					measured, err := m.Measurements(t.Context(), r)
					if err != nil || len(measured) != 1 || !measured[0].Answered || measured[0].Data.Fault.Why != "" || len(p.asked) == 0 {
						t.Errorf("measured %+v, %v; asked %d times", measured, err, len(p.asked))
					}
				})
			})
		}
	}
}

// TestLatencyBoundary has the histogram of Linkerd, which has more boundaries than asGoodAs
// compares. latency uses the boundary of the check.
func TestLatencyBoundary(t *testing.T) {
	buckets := strings.Fields("1 2 3 4 5 10 20 30 40 50 100 200 300 400 500 1000 2000 3000 4000 5000 10000 20000 30000 40000 50000 +Inf")
	for below, want := range map[int32]float64{1: 1, 450: 500, 500: 500, 1000: 1000, 1001: 2000, 50000: 50000, 60000: 50000} {
		check := rollouts.Check{Latency: &rollouts.LatencyCheck{Share: "99%", BelowMilliseconds: below}}
		run(t, &prometheus{buckets: buckets}, func(m *analysis.Runner, _ chan event.GenericEvent) {
			began := time.Now().Truncate(5 * time.Second)
			of := metric.Release{Namespace: "shop", New: metric.Version{Pods: "web-5d8f-.*"}, Stable: metric.Version{Pods: "web-77c4-.*"}}
			m.SetRequests(web, analysis.Subject{UID: "uid", Release: of}, []planner.MeasurementRequest{{Check: check, Began: began, From: began, Every: 5 * time.Second}})
			<-time.After(12 * time.Second)
			synctest.Wait()
			measured, err := m.Measurements(t.Context(), rollout(check))
			if err != nil || len(measured) != 1 || len(measured[0].Data.Bounds) == 0 {
				t.Fatalf("measured %+v, %v", measured, err)
			}
			bounds := measured[0].Data.Bounds
			judged := bounds[len(bounds)-1]
			for _, b := range slices.Backward(bounds) {
				if b >= float64(below) {
					judged = b
				}
			}
			if judged != want {
				t.Errorf("below %d ms: judged at %v ms of %v, want %v", below, judged, bounds, want)
			}
		})
	}
}

// TestNothing checks that an answer without data has a reason, because each cause needs another
// fix. Messages name the series of the query instead of the whole query.
func TestNothing(t *testing.T) {
	const (
		rows    = `http_requests_total{namespace="shop",pod=~"web-5d8f-.*|web-77c4-.*"}, http_server_request_duration_seconds_count, response_total, istio_requests_total, nginx_ingress_controller_requests`
		buckets = `http_request_duration_seconds_bucket{namespace="shop",pod=~"web-5d8f-.*|web-77c4-.*"}, http_server_request_duration_seconds_bucket, ` +
			`response_latency_ms_bucket, istio_request_duration_milliseconds_bucket, nginx_ingress_controller_request_duration_seconds_bucket`
	)
	value := func(v metric.Value) func(analysis.RangeQuery) []metric.Series {
		return func(r analysis.RangeQuery) []metric.Series {
			return []metric.Series{{Values: slices.Repeat([]metric.Value{v}, r.Windows)}}
		}
	}
	none := func(analysis.RangeQuery) []metric.Series { return nil }
	number := rollouts.Check{Query: &rollouts.QueryCheck{PromQL: "max(heap)", Max: new("1")}}
	for _, test := range []struct {
		name        string
		check       rollouts.Check
		series      func(analysis.RangeQuery) []metric.Series
		want, query string
	}{
		{"no series", number, none, "the query returns no series", "max(heap)"},
		{"no series in the window", number, value(metric.Value{}), "the query returns no series", "max(heap)"},
		{"no number", number, value(metric.Value{Number: math.NaN()}), "the query returns NaN or Inf", "max(heap)"},
		{"a number", number, value(metric.Value{Number: 2, Known: true}), "", "max(heap)"},
		{"no histogram", rollouts.Check{Latency: &rollouts.LatencyCheck{Share: "99%", BelowMilliseconds: 500}}, none, "no histogram of response times: nothing matches " + buckets, buckets},
		{"no requests", rate, none, "", rows},
		{"requests", rate, nil, "", `nginx_ingress_controller_requests{namespace="shop",ingress=~"web"}`},
		{"counters", rollouts.Check{Query: &rollouts.QueryCheck{Bad: `m_bad{pod=~"$pods"}`, Total: `m{pod=~"$pods"}`}}, none, "", `m{pod=~"web-5d8f-.*"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			run(t, &prometheus{series: test.series}, func(m *analysis.Runner, _ chan event.GenericEvent) {
				began, of := time.Now().Truncate(5*time.Second), subject
				of.Release.New.Pods, of.Release.Stable.Pods = "web-5d8f-.*", "web-77c4-.*"
				m.SetRequests(web, of, []planner.MeasurementRequest{{Check: test.check, Began: began, From: began, Every: 5 * time.Second}})
				<-time.After(12 * time.Second)
				synctest.Wait()
				measured, err := m.Measurements(t.Context(), rollout(test.check))
				if err != nil || len(measured) != 1 || measured[0].Data.Fault.Why != "" {
					t.Fatalf("measured %+v, %v", measured, err)
				}
				if got := measured[0]; got.Data.Nothing != test.want || got.Query != test.query {
					t.Errorf("got  %q, query %s\nwant %q, query %s", got.Data.Nothing, got.Query, test.want, test.query)
				}
			})
		})
	}
}

// TestPastBoundaries has a histogram of the hour before the release, with stable alone, whose
// boundaries differ from those that the versions have in common. The past is counted at the
// boundaries of the release. A boundary that stable did not have has no counts, so its dispersion
// is assumed.
func TestPastBoundaries(t *testing.T) {
	check := rollouts.Check{AsGoodAs: "Stable"}
	for _, test := range []struct {
		name          string
		past, release map[string]float64 // requests up to each boundary in seconds, of 90
		want          []judge.Count
	}{
		{"the same", map[string]float64{"0.5": 80, "1": 85}, map[string]float64{"0.5": 80, "1": 85}, []judge.Count{{Total: 90, Bad: 10}, {Total: 90, Bad: 5}}},
		{"one less", map[string]float64{"0.1": 50, "0.5": 80, "1": 85}, map[string]float64{"0.5": 80, "1": 85}, []judge.Count{{Total: 90, Bad: 10}, {Total: 90, Bad: 5}}},
		{"one more", map[string]float64{"0.5": 80, "1": 85}, map[string]float64{"0.1": 50, "0.5": 80, "1": 85}, []judge.Count{{}, {Total: 90, Bad: 10}, {Total: 90, Bad: 5}}},
		{"others", map[string]float64{"0.3": 80}, map[string]float64{"0.4": 80}, []judge.Count{{}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			began, release := time.Time{}, test.release
			p := &prometheus{series: func(r analysis.RangeQuery) []metric.Series {
				var all []metric.Series
				add := func(value float64, labels map[string]string) {
					all = append(all, metric.Series{Labels: labels, Values: slices.Repeat([]metric.Value{{Number: value, Known: true}}, r.Windows)})
				}
				versions, buckets := []string{"new", "stable"}, release
				if r.Start.Before(began) {
					versions, buckets = versions[1:], test.past
				}
				for _, version := range versions {
					if !strings.Contains(r.PromQL, "_bucket") {
						add(90, map[string]string{"weir_version": version, "status": "200"})
						continue
					}
					add(90, map[string]string{"weir_version": version, "le": "+Inf"})
					for le, value := range buckets {
						add(value, map[string]string{"weir_version": version, "le": le})
					}
				}
				return all
			}}
			run(t, p, func(m *analysis.Runner, _ chan event.GenericEvent) {
				began = time.Now().Truncate(5 * time.Second)
				of := metric.Release{Namespace: "shop", New: metric.Version{Pods: "web-5d8f-.*"}, Stable: metric.Version{Pods: "web-77c4-.*"}}
				m.SetRequests(web, analysis.Subject{UID: "uid", Release: of}, []planner.MeasurementRequest{{Check: check, Began: began, From: began, Every: 5 * time.Second}})
				<-time.After(12 * time.Second)
				synctest.Wait()
				data := onlyMeasurement(t, m, check).Data
				if len(data.Windows) == 0 || len(data.Past) == 0 {
					t.Fatalf("measured %+v", data)
				}
				var got []judge.Count
				for _, p := range data.Past[0].Counts[1:] {
					got = append(got, p.Old)
				}
				if diff := gocmp.Diff(test.want, got); diff != "" || data.Past[0].Counts[0].Old.Total != 90 {
					t.Errorf("slow requests before the release, at %v (-want +got):\n%s", data.Bounds, diff)
				}
				release = test.past // the boundaries change in the release
				<-time.After(15 * time.Second)
				synctest.Wait()
				if data := onlyMeasurement(t, m, check).Data; len(data.Past) == 0 || len(data.Past[0].Counts) != 1+len(test.past) || len(data.Pods) != 2 {
					t.Errorf("with other boundaries the hour before is %+v, and the pods are %+v", data.Past, data.Pods)
				}
			})
		})
	}
}

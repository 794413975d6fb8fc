// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package prometheus runs the queries of pkg/metric in the engine of Prometheus. It is a nested
// module, so that Prometheus does not become a dependency of Weir.
package prometheus

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/prometheus/promql/promqltest"
)

const (
	testdata = "../../pkg/metric/testdata"
	window   = 30 * time.Second
	windows  = 10
	none     = -1
)

// ask runs a query as a source does, and returns its series by name.
func ask(t *testing.T, load, query string, name func(labels map[string]string) string) map[string][]float64 {
	t.Helper()
	storage := promqltest.LoadedStorage(t, load)
	defer storage.Close()
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	start := time.Unix(0, 0).Add(window)
	q, err := engine.NewRangeQuery(t.Context(), storage, nil, query, start, start.Add((windows-1)*window), window)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	result := q.Exec(t.Context())
	if result.Err != nil || len(result.Warnings) > 0 {
		t.Fatal(result.Err, result.Warnings)
	}
	matrix, err := result.Matrix()
	if err != nil {
		t.Fatal(err)
	}
	answer := map[string][]float64{}
	for _, series := range matrix {
		values := slices.Repeat([]float64{none}, windows)
		for _, point := range series.Floats {
			values[point.T/window.Milliseconds()-1] = point.F
		}
		answer[name(series.Metric.Map())] = values
	}
	return answer
}

// exporter is the exporter of the metrics of a row. All exporters have the same requests, with other names.
type exporter struct {
	row, requests, durations string
	stable, fresh            string
	ok, bad                  string
	known                    string
	// collides is the label that Prometheus renames, and its value.
	collides, target string
	// others are requests that do not belong to the release, with or without a status.
	others []string
}

var exporters = []exporter{
	{
		row: "ingress-nginx", requests: "nginx_ingress_controller_requests", durations: "nginx_ingress_controller_request_duration_seconds",
		stable: `namespace="shop",ingress="web",service="web",canary=""`, fresh: `namespace="shop",ingress="web",service="web",canary="shop-web-canary-80"`,
		ok: `status="200"`, bad: `status="502"`, collides: "namespace", target: "ingress-nginx",
		others: []string{`namespace="shop",ingress="web2",canary=""`, `namespace="bank",ingress="web",canary=""`},
	},
	{
		row: "Traefik", requests: "traefik_service_requests_total", durations: "traefik_service_request_duration_seconds",
		stable: `service="shop-web-http-80@kubernetesgateway"`, fresh: `service="shop-web-canary-http-80@kubernetesgateway"`,
		ok: `code="200"`, bad: `code="502"`, collides: "service", target: "traefik-metrics",
		others: []string{`service="shop-web-admin-80@kubernetes"`, `service="bank-shop-web-80@kubernetes"`, `service="shop-web-http-80@kubernetes"`},
	},
	{
		row: "Traefik", requests: "traefik_service_requests_total", durations: "traefik_service_request_duration_seconds",
		stable: `service="shop-web-80@kubernetescrd"`, fresh: `service="shop-web-canary-http@kubernetescrd"`,
		ok: `code="200"`, bad: `code="502"`, collides: "service", target: "traefik-metrics",
	},
	{
		row: "Istio sidecar", requests: "istio_requests_total", durations: "istio_request_duration_milliseconds",
		stable: `reporter="destination",namespace="shop",pod="web-77c4-abcde"`, fresh: `reporter="destination",namespace="shop",pod="web-5d8f-abcde"`,
		ok: `response_code="200",grpc_response_status="0"`, bad: `response_code="200",grpc_response_status="14"`,
		others: []string{`reporter="source",namespace="shop",pod="web-5d8f-abcde"`, `reporter="destination",namespace="shop",pod="web-5d8f2-abcde"`, `reporter="destination",namespace="bank",pod="web-5d8f-abcde"`},
	},
	{
		row: "Istio waypoint", requests: "istio_requests_total", durations: "istio_request_duration_milliseconds",
		stable: `reporter="waypoint",destination_service_namespace="shop",destination_service_name="web"`, fresh: `reporter="waypoint",destination_service_namespace="shop",destination_service_name="web-canary"`,
		ok: `response_code="200"`, bad: `response_code="503"`,
		others: []string{`reporter="destination",destination_service_namespace="shop",destination_service_name="web"`, `reporter="waypoint",destination_service_namespace="shop",destination_service_name="web2"`},
	},
	{
		row: "Linkerd", requests: "response_total", durations: "response_latency_ms",
		stable: `direction="inbound",namespace="shop",pod="web-old-abcde",target_port="80"`, fresh: `direction="inbound",namespace="shop",pod="web-5d8f-abcde",target_port="80"`,
		ok: `classification="success"`, bad: `classification="failure"`,
		others: []string{`direction="outbound",namespace="shop",pod="web-5d8f-abcde"`, `direction="inbound",namespace="shop",pod="web-5d8f-abcde",target_port="4191"`, `direction="inbound",namespace="shop",pod="web-5d8f-abcde",target_port="80",route_name="probe"`},
	},
	{
		row: "OpenTelemetry", requests: "http_server_request_duration_seconds_count", durations: "http_server_request_duration_seconds",
		stable: `namespace="shop",pod="web-77c4-abcde"`, fresh: `namespace="shop",pod="web-5d8f-abcde"`,
		ok: `http_response_status_code="200"`, bad: `http_response_status_code="500"`,
		others: []string{`namespace="shop",pod="web2-5d8f-abcde"`},
	},
	{
		row: "OpenTelemetry (pushed)", requests: "http_server_request_duration_seconds_count", durations: "http_server_request_duration_seconds",
		stable: `k8s_namespace_name="shop",k8s_pod_name="web-77c4-abcde"`, fresh: `k8s_namespace_name="shop",k8s_pod_name="web-5d8f-abcde"`,
		ok: `http_response_status_code="200"`, bad: `http_response_status_code="500"`, known: "target_info",
		others: []string{`k8s_namespace_name="bank",k8s_pod_name="web-5d8f-abcde"`},
	},
	{
		row: "http_requests_total", requests: "http_requests_total", durations: "http_request_duration_seconds",
		stable: `namespace="shop",pod="web-77c4-abcde"`, fresh: `namespace="shop",pod="web-5d8f-abcde"`,
		ok: `code="200"`, bad: `code="500"`,
		others: []string{`namespace="shop",pod="web-5d8f"`},
	},
}

// series returns the requests: ten of stable in each scrape, the first five of the new version after
// two minutes, and its first two failures half a minute later.
func (e exporter) series(renamed bool) string {
	known := e.known
	if known == "" {
		known = "up"
	}
	var text strings.Builder
	plain := func(name, labels, values string) {
		fmt.Fprintf(&text, "  %s{%s,job=\"j\",instance=\"i\"} %s\n", name, labels, values)
	}
	add := func(name, labels, values string) {
		if renamed {
			labels = fmt.Sprintf("%s=%q,", e.collides, e.target) + strings.Replace(labels, e.collides+"=", "exported_"+e.collides+"=", 1)
		}
		plain(name, labels, values)
	}
	fmt.Fprintf(&text, "load 10s\n  %s{job=\"j\",instance=\"i\"} 1x30\n", known)
	add(e.requests, e.stable+","+e.ok, "0+10x30")
	add(e.requests, e.stable+","+e.bad, "7x30")
	add(e.requests, e.fresh+","+e.ok, "_x12 5+5x18")
	add(e.requests, e.fresh+","+e.bad, "_x14 2x3 4+1x12")
	for le, perScrape := range map[string]string{"0.1": "0+8x30", "0.5": "0+9x30", "+Inf": "0+10x30"} {
		add(e.durations+"_bucket", e.stable+`,le="`+le+`"`, perScrape)
	}
	for le, perScrape := range map[string]string{"0.1": "_x12 1+1x18", "0.5": "_x12 3+2x18", "+Inf": "_x12 5+5x18"} {
		add(e.durations+"_bucket", e.fresh+`,le="`+le+`"`, perScrape)
	}
	if renamed {
		// The target itself is named as the release, and its metric is about another one.
		other := e.fresh + ",exported_" + e.collides + `="other"`
		plain(e.requests, other+","+e.bad, "0+100x30")
		plain(e.durations+"_bucket", other+`,le="+Inf"`, "0+100x30")
	}
	for _, other := range e.others {
		add(e.requests, other+","+e.bad, "0+100x30")
		add(e.durations+"_bucket", other+`,le="+Inf"`, "0+100x30")
	}
	return text.String()
}

func (e exporter) name(labels map[string]string) string {
	class := "le=" + labels["le"]
	for status, text := range map[string]string{"ok": e.ok, "bad": e.bad} {
		same := true
		for label := range strings.SplitSeq(text, ",") {
			key, value, _ := strings.Cut(label, "=")
			same = same && labels[key] == strings.Trim(value, `"`)
		}
		if same {
			class = status
		}
	}
	return labels["weir_version"] + " " + class
}

func each(value float64) []float64 { return slices.Repeat([]float64{value}, windows) }

// since returns no value for three windows, first for the fourth, and then for the others.
func since(first, then float64) []float64 {
	return append([]float64{none, none, none, first}, slices.Repeat([]float64{then}, windows-4)...)
}

// newest has the times of the newest samples at the end of each window.
var newest = []float64{30, 60, 90, 120, 150, 180, 210, 240, 270, 300}

var wanted = map[string]map[string][]float64{
	"Requests": {
		"newest le=": newest,
		"stable ok":  each(30), "stable bad": each(0),
		"new ok": since(5, 15), "new bad": {none, none, none, none, 2, 2, 3, 3, 3, 3},
	},
	"Single": {"newest le=": newest, "stable ok": each(30), "stable bad": each(0)},
	"Durations": {
		"newest le=":    newest,
		"stable le=0.1": each(24), "stable le=0.5": each(27), "stable le=+Inf": each(30),
		"new le=0.1": since(1, 3), "new le=0.5": since(3, 6), "new le=+Inf": since(5, 15),
	},
}

// TestRows runs the queries of the golden files, for exporters with both spellings of labels.
func TestRows(t *testing.T) {
	asked := map[string]bool{}
	for _, e := range exporters {
		for title, query := range queries(t, e.row) {
			spelling, kind, _ := strings.Cut(title, " ")
			asked[e.row+".promql"] = true
			for _, renamed := range []bool{false, true} {
				if renamed && e.collides == "" || spelling == "Plain" && renamed || spelling == "Exported" && !renamed && e.collides != "" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/renamed=%v", e.row, title, renamed), func(t *testing.T) {
					if diff := cmp.Diff(wanted[kind], ask(t, e.series(renamed), query, e.name)); diff != "" {
						t.Errorf("%s\n%s", diff, query)
					}
				})
			}
		}
	}
	files, err := filepath.Glob(testdata + "/*.promql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if name := filepath.Base(file); !asked[name] && !slices.Contains([]string{"user.promql", "increments.promql", "scrapes.promql", "pods.promql"}, name) {
			t.Errorf("nothing asks %s", file)
		}
	}
}

// queries returns the queries of a golden file by their titles.
func queries(t *testing.T, row string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testdata, row+".promql"))
	if err != nil {
		t.Fatal(err)
	}
	queries := map[string]string{}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		queries[strings.TrimPrefix(lines[i], "# ")] = lines[i+1]
	}
	if len(queries) == 0 {
		t.Fatalf("%s has no queries", row)
	}
	return queries
}

// TestUser queries two counters that a user defines, for both versions and both classes. Pod c restarts:
// the window in which its count of checkouts falls has no failures of this pod.
func TestUser(t *testing.T) {
	got := ask(t, `load 10s
  up{job="j",instance="i"} 1x30
  checkouts_total{pod="web-77c4-a",tier="a/b",job="j",instance="i"} 0+10x30
  checkouts_total{pod="web-5d8f-a",tier="a/b",job="j",instance="i"} _x12 5+5x18
  checkouts_total{pod="web-5d8f-b",tier="a/b",job="j",instance="i"} _x15 0+1x18
  checkouts_total{pod="web-5d8f-c",tier="a/b",job="j",instance="i"} 5x20 0+1x9
  checkout_failures_total{pod="web-5d8f-c",job="j",instance="i"} 0x20 4x9
  checkouts_total{pod="web-5d8f-a",tier="a",job="j",instance="i"} 0+1000x30
  checkout_failures_total{pod="web-5d8f-a",job="j",instance="i"} _x12 1x18
`, queries(t, "user")["Auto counts"], func(labels map[string]string) string { return labels["weir_version"] + " " + labels["weir_class"] })
	want := map[string][]float64{
		"newest ": newest, "stable total": each(30), "new total": {0, 0, 0, 5, 15, 18, 18, 21, 21, 21}, "new bad": {0, 0, 0, 1, 0, 0, 0, 0, 0, 0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := promqltest.NewTestEngine(t, false, 0, 1000).NewRangeQuery(t.Context(), promqltest.LoadedStorage(t, "load 1s\n a 1"), nil, queries(t, "user")["Auto number"], time.Unix(0, 0), time.Unix(9, 0), time.Second); err != nil {
		t.Error(err)
	}
}

// TestScrapes measures the time between two samples of the requests of each row. Pods are new, deleted,
// stale, restarted, and not scraped for two minutes. None of these changes the measured interval.
func TestScrapes(t *testing.T) {
	for _, e := range append(slices.Clone(exporters), exporter{row: "user", requests: "checkouts_total", stable: `pod="web-77c4-a"`, fresh: `pod="web-5d8f-a"`, ok: `tier="a/b"`}) {
		t.Run(e.row, func(t *testing.T) {
			load := "load 5s\n"
			for _, pod := range []struct{ labels, values string }{
				{e.stable + "," + e.ok + `,job="j",instance="a"`, "0 _x2 1 _x2 2 _x2 3 _x2 4 _x2 5 _x2 6 _x2 7 _x2 8 _x2 9 _x2 10 _x2 11 _x2 12 _x2 13 _x2 14 _x2 15 _x2 16 _x2 17 _x2 18 _x2 19 _x2 20"},
				{e.stable + "," + e.ok + `,job="j",instance="stale"`, "0 _x2 1 stale _x50 2 _x2 3"},
				{e.stable + "," + e.ok + `,job="j",instance="down"`, "0 _x2 1 _x2 2 _x2 3 _x23 4 _x2 5 _x2 6 _x2 7"},
				{e.fresh + "," + e.ok + `,job="j",instance="new"`, "_x55 5"},
				{e.fresh + "," + e.ok + `,job="j",instance="gone"`, "5"},
			} {
				load += "  " + e.requests + "{" + pod.labels + "} " + pod.values + "\n"
			}
			got := askEvery(t, load, queries(t, "scrapes")[e.row], 5*time.Second, 70)
			if highest := slices.Max(got["gap"]); highest != 15 {
				t.Errorf("the time between samples is %v: %v", highest, got["gap"])
			}
			if last := got["newest"][69]; last != 300 {
				t.Errorf("the newest sample at 350 s is of %v: %v", last, got["newest"])
			}
		})
	}
	got := askEvery(t, "load 5s\n  up{namespace=\"shop\",job=\"j\",instance=\"a\"} 1x4\n  up{namespace=\"bank\"} 1x9\n", queries(t, "scrapes")["namespace"], 5*time.Second, 8)
	if last := got["newest"][7]; last != 20 {
		t.Errorf("the newest sample of the namespace is of %v", last)
	}
}

// TestPods counts the requests of each stable pod in an hour. A pod has 10 requests in a minute. The second
// pod fails one of them.
func TestPods(t *testing.T) {
	for _, e := range append(slices.Clone(exporters), exporter{row: "user", stable: `pod="web-77c4-abcde"`, fresh: `pod="web-5d8f-abcde"`}) {
		query, ok := queries(t, "pods")[e.row]
		if !ok {
			continue // its metrics name no pods
		}
		t.Run(e.row, func(t *testing.T) {
			load, second := "load 1m\n", strings.Replace(e.stable, "abcde", "fghij", 1)
			add := func(name, labels, values string) {
				load += "  " + name + "{" + labels + `,job="j",instance="i"} ` + values + "\n"
			}
			if e.row == "user" {
				add("checkouts_total", e.stable+`,tier="a/b"`, "0+10x61")
				add("checkouts_total", second+`,tier="a/b"`, "0+10x61")
				add("checkout_failures_total", second, "0+1x61")
			} else {
				add(e.requests, e.stable+","+e.ok, "0+10x61")
				add(e.requests, second+","+e.ok, "0+9x61")
				add(e.requests, second+","+e.bad, "0+1x61")
				add(e.requests, e.fresh+","+e.bad, "0+100x61")
			}
			got := map[string]float64{}
			for name, values := range askEvery(t, load, query, time.Hour, 1) {
				got[name] = math.Round(values[0])
			}
			first, other := podOf(e.stable), podOf(second)
			if slow := queries(t, "pods")[e.row+" slow"]; slow != "" {
				load := "load 1m\n"
				for le, values := range map[string]string{"0.5": "0+9x61", "+Inf": "0+10x61"} {
					load += "  " + e.durations + "_bucket{" + e.stable + `,le="` + le + `",job="j",instance="i"} ` + values + "\n"
				}
				got := askEvery(t, load, slow, time.Hour, 1)
				if total, bad := math.Round(got[first+" total"][0]), math.Round(got[first+" bad"][0]); total != 600 || bad != 60 {
					t.Errorf("%v of %v requests were slow, want 60 of 600", bad, total)
				}
			}
			if diff := cmp.Diff(map[string]float64{first + " total": 600, other + " total": 600, other + " bad": 60}, got, cmpopts.IgnoreMapEntries(func(name string, n float64) bool {
				return name == first+" bad" && n == 0
			})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// podOf returns the name of the pod in labels.
func podOf(labels string) string {
	_, rest, _ := strings.Cut(labels, `pod="`)
	if _, named, ok := strings.Cut(labels, `pod_name="`); ok {
		rest = named
	}
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

// askEvery runs a query at several times. It names series by pod and class, or by version.
func askEvery(t *testing.T, load, query string, every time.Duration, instants int) map[string][]float64 {
	t.Helper()
	storage := promqltest.LoadedStorage(t, load)
	defer storage.Close()
	start := time.Unix(0, 0).Add(every)
	q, err := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery).NewRangeQuery(t.Context(), storage, nil, query, start, start.Add(time.Duration(instants-1)*every), every)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	result := q.Exec(t.Context())
	if result.Err != nil || len(result.Warnings) > 0 {
		t.Fatal(result.Err, result.Warnings)
	}
	matrix, err := result.Matrix()
	if err != nil {
		t.Fatal(err)
	}
	answer := map[string][]float64{}
	for _, series := range matrix {
		labels, values := series.Metric.Map(), slices.Repeat([]float64{none}, instants)
		for _, point := range series.Floats {
			values[point.T/every.Milliseconds()-1] = point.F
		}
		name := labels["weir_version"]
		if name == "" {
			name = labels["weir_pod"] + " " + labels["weir_class"]
		}
		answer[name] = values
	}
	return answer
}

// TestIncrements tests only the formula, with counters that reset and targets that come and go.
func TestIncrements(t *testing.T) {
	query := queries(t, "increments")["Known"]
	for _, test := range []struct {
		name, load string
		want       []float64
	}{
		{"a counter", `up{job="j",instance="i"} 1x30
  m{job="j",instance="i"} 0+1x30`, each(3)},
		{"a newborn of a known target", `up{job="j",instance="i"} 1x30
  m{job="j",instance="i"} _x12 7x18`, since(7, 0)},
		{"a new target: its first sample is of unknown age", `up{job="j",instance="i"} _x12 1x18
  m{job="j",instance="i"} _x12 700+1x18`, []float64{none, none, none, none, 3, 3, 3, 3, 3, 3}},
		{"a series that comes later to a new target", `up{job="j",instance="i"} _x10 1x20
  m{job="j",instance="i",code="200"} _x10 0+1x20
  m{job="j",instance="i",code="500"} _x14 2x16`, []float64{none, none, none, none, 5, 3, 3, 3, 3, 3}},
		{"a reset costs a window", `up{job="j",instance="i"} 1x30
  m{job="j",instance="i"} 0+10x14 0+1x15`, []float64{30, 30, 30, 30, none, 3, 3, 3, 3, 3}},
		{"one of two pods restarts", `up{job="j",instance="i"} 1x30
  m{pod="a",job="j",instance="i"} 0+10x14 0+1x15
  m{pod="b",job="j",instance="i"} 0+1x30`, []float64{33, 33, 33, 33, 3, 6, 6, 6, 6, 6}},
		{"a restart that shows in one of the pod's series", `up{job="j",instance="i"} 1x30
  m{pod="a",code="200",job="j",instance="i"} 100+10x13 0+10x16
  m{pod="a",code="500",job="j",instance="i"} _x14 4x16
  m{pod="b",code="200",job="j",instance="i"} 0+1x30`, []float64{33, 33, 33, 33, 3, 33, 33, 33, 33, 33}},
		{"a restart after which a series of the pod is missing", `up{job="j",instance="i"} 1x30
  m{pod="a",code="200",job="j",instance="i"} 0+10x13 stale
  m{pod="a",code="500",job="j",instance="i"} _x14 4x16`, []float64{30, 30, 30, 30, none, 0, 0, 0, 0, 0}},
		{"a new pod that restarts at once", `up{job="j",instance="i"} 1x30
  m{pod="a",code="200",job="j",instance="i"} 0x12 50 3+3x16
  m{pod="a",code="500",job="j",instance="i"} 0x13 4x17`, []float64{0, 0, 0, 0, none, 9, 9, 9, 9, 9}},
		{"a pod that ends", `up{job="j",instance="i"} 1x30
  m{pod="a",job="j",instance="i"} 0+1x13 stale
  m{pod="b",job="j",instance="i"} 0+1x30`, []float64{6, 6, 6, 6, 3, 3, 3, 3, 3, 3}},
		{"a target that is down", `up{job="j",instance="i"} 1x11 0x5 1x12
  m{job="j",instance="i"} 0+1x11 stale _x5 18+1x12`, []float64{3, 3, 3, none, none, none, 3, 3, 3, 3}},
		{"scrapes that are missed", `up{job="j",instance="i"} 1x30
  m{job="j",instance="i"} 0+1x12 _x7 20+1x10`, []float64{3, 3, 3, 3, 0, 0, 9, 3, 3, 3}},
		{"a scrape per minute", `up{job="j",instance="i"} 1 _x5 1 _x5 1 _x5 1 _x5 1 _x5 1
  m{job="j",instance="i"} 0 _x5 6 _x5 12 _x5 18 _x5 24 _x5 30`, []float64{0, 6, 0, 6, 0, 6, 0, 6, 0, 6}},
		{"another target with the same job", `up{job="j",instance="other"} 1x30
  m{job="j",instance="i"} _x12 700+1x18`, []float64{none, none, none, none, 3, 3, 3, 3, 3, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ask(t, "load 10s\n  "+test.load+"\n", query, func(map[string]string) string { return "" })
			if diff := cmp.Diff(map[string][]float64{"": test.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package metric

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// line is a series; a gap is Gap, and what is no number NaN.
func line(labels map[string]string, numbers ...float64) Series {
	values := make([]Value, len(numbers))
	for i, n := range numbers {
		values[i] = Value{Number: n, Known: !math.IsNaN(n)}
		if n == gap {
			values[i] = Value{}
		}
	}
	return Series{Labels: labels, Values: values}
}

const gap = -1e9

func status(version, code string) map[string]string {
	return map[string]string{labelVersion: version, "code": code}
}

func TestWindows(t *testing.T) {
	nan := math.NaN()
	for _, test := range []struct {
		name   string
		answer []Series
		want   []Window
	}{
		{"nothing", nil, []Window{}},
		{
			"both versions",
			[]Series{line(status("stable", "200"), 90), line(status("stable", "500"), 1), line(status("new", "200"), 7), line(status("new", "502"), 2), line(status("new", "5xx"), 1)},
			[]Window{{New: Counts{10, 3}, Stable: Counts{91, 1}, Known: true}},
		},
		{"the new one has no requests yet", []Series{line(status("stable", "200"), 90, 90), line(status("new", "200"), gap, 2)}, []Window{
			{Stable: Counts{Total: 90}, Known: true}, {New: Counts{Total: 2}, Stable: Counts{Total: 90}, Known: true},
		}},
		{"a gap of both", []Series{line(status("stable", "200"), 1, gap, 1), line(status("new", "200"), 1, gap, 1)}, []Window{
			{New: Counts{Total: 1}, Stable: Counts{Total: 1}, Known: true}, {}, {New: Counts{Total: 1}, Stable: Counts{Total: 1}, Known: true},
		}},
		{"no number, and less than nothing", []Series{line(status("stable", "200"), 1, 1, 1), line(status("new", "200"), nan, -1, 1), line(status("new", "404"), 5, 5, 5)}, []Window{
			{}, {}, {New: Counts{Total: 6}, Stable: Counts{Total: 1}, Known: true},
		}},
		{"nothing that is a version", []Series{line(map[string]string{"code": "200"}, 5), line(status("other", "200"), nan)}, []Window{{}}},
	} {
		if diff := cmp.Diff(test.want, row(t, "Traefik").Windows(test.answer)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

// TestBad has a status that each row counts as a failure, and one that it does not.
func TestBad(t *testing.T) {
	for _, test := range []struct {
		row, label, bad, good string
	}{
		{"ingress-nginx", "status", "500", "499"},
		{"ingress-nginx", "status", "5xx", "4xx"},
		{"Traefik", "code", "503", "404"},
		{"Istio sidecar", "response_code", "503", "0"},
		{"Istio sidecar", "grpc_response_status", "14", "5"},
		{"Istio waypoint", "grpc_response_status", "2", "0"},
		{"Linkerd", "classification", "failure", "success"},
		{"OpenTelemetry", "http_response_status_code", "500", "200"},
		{"OpenTelemetry (pushed)", "http_response_status_code", "500", "200"},
		{"http_requests_total", "status_code", "599", "200"},
		{"http_requests_total", "code", "500", "50"},
	} {
		for value, want := range map[string]float64{test.bad: 1, test.good: 0} {
			windows := row(t, test.row).Windows([]Series{line(map[string]string{labelVersion: "new", test.label: value}, 1)})
			if got := windows[0].New.Bad; got != want {
				t.Errorf("%s: %s=%s: got %v bad requests, want %v", test.row, test.label, value, got, want)
			}
		}
	}
}

func bucket(version, le string) map[string]string {
	return map[string]string{labelVersion: version, labelBucket: le}
}

func TestBoundaries(t *testing.T) {
	answer := []Series{
		line(bucket("stable", "0.1"), 50), line(bucket("stable", "0.5"), 80), line(bucket("stable", "1"), 85), line(bucket("stable", "+Inf"), 90),
		line(bucket("new", "0.1"), 1), line(bucket("new", "0.25"), 2), line(bucket("new", "1.0"), 9), line(bucket("new", "+Inf"), 10),
		line(bucket("new", "x"), 10),
	}
	want := []Boundary{
		{Milliseconds: 100, Label: "0.1", Windows: []Window{{New: Counts{10, 9}, Stable: Counts{90, 40}, Known: true}}},
		{Milliseconds: 1000, Label: "1", Windows: []Window{{New: Counts{10, 1}, Stable: Counts{90, 5}, Known: true}}},
	}
	boundaries := row(t, "Traefik").Boundaries(answer)
	if diff := cmp.Diff(want, boundaries); diff != "" {
		t.Error(diff)
	}
	if got := row(t, "Istio sidecar").Boundaries(answer[:4])[1].Milliseconds; got != 0.5 {
		t.Errorf("Istio counts milliseconds, got %v", got)
	}
	for milliseconds, want := range map[float64]float64{50: 100, 100: 100, 101: 1000, 1000: 1000, 1001: 1000} {
		if got := BoundaryForLimit(boundaries, milliseconds); len(got) != 1 || got[0].Milliseconds != want {
			t.Errorf("%v: got %v, want %v", milliseconds, got, want)
		}
	}
	if got := BoundaryForLimit(nil, 5); len(got) != 0 {
		t.Errorf("a histogram without boundaries is judged by %v", got)
	}
}

// TestBucketMissing has a window without one of the buckets, for example after a reset.
func TestBucketMissing(t *testing.T) {
	answer := []Series{line(bucket("new", "0.1"), gap, 5, gap), line(bucket("new", "1"), 9, 9, 9), line(bucket("new", "+Inf"), 9, 9, gap)}
	got := row(t, "Traefik").Boundaries(answer)[:1]
	want := []Boundary{{Milliseconds: 100, Label: "0.1", Windows: []Window{{}, {New: Counts{9, 4}, Known: true}, {}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestThin(t *testing.T) {
	var all []Boundary
	for i := range 40 {
		all = append(all, Boundary{Milliseconds: float64(i)})
	}
	thin := ThinBoundaries(all)
	if len(thin) != MaxBoundaries || thin[0].Milliseconds != 0 || thin[15].Milliseconds != 39 {
		t.Errorf("got %v", thin)
	}
	if got := ThinBoundaries(all[:16]); len(got) != 16 {
		t.Errorf("got %v", got)
	}
}

func TestUserWindows(t *testing.T) {
	of := func(version, class string) map[string]string {
		return map[string]string{labelVersion: version, labelClass: class}
	}
	got := UserWindows([]Series{line(of("new", "total"), 9, 9, 9, 9), line(of("new", "bad"), gap, 2, 10, 2), line(of("stable", "total"), 9, 9, 9, 9), line(of("stable", "bad"), gap, gap, gap, 10)})
	want := []Window{
		{New: Counts{Total: 9}, Stable: Counts{Total: 9}, Known: true},
		{New: Counts{9, 2}, Stable: Counts{Total: 9}, Known: true},
		{},
		{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

//go:build e2e

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-rollouts/weir/pkg/metric"
)

// pods are two targets whose counters move with each scrape, and then stop.
type pods struct {
	mu      sync.Mutex
	scrapes map[string]int
	still   chan struct{}
}

const scrapes = 8

func (p *pods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(p.scrapes[r.URL.Path], scrapes)
	p.scrapes[r.URL.Path]++
	if p.scrapes["/new"] == scrapes+8 {
		close(p.still)
	}
	good := map[string]int{"/stable": 100, "/new": 10}[r.URL.Path]
	fmt.Fprintf(w, "http_requests_total{code=\"200\"} %d\n", good*n)
	if n >= 5 && r.URL.Path == "/new" {
		fmt.Fprintf(w, "http_requests_total{code=\"500\"} %d\n", n-3)
	}
	for le, of := range map[string]int{"0.1": 8, "1": 9, "+Inf": 10} {
		fmt.Fprintf(w, "http_request_duration_seconds_bucket{le=%q} %d\n", le, good*n*of/10)
	}
	fmt.Fprintf(w, "http_request_duration_seconds_count %d\nhttp_request_duration_seconds_sum 1\n", good*n)
}

// TestPrometheus queries a real Prometheus, which `make prometheus` builds.
func TestPrometheus(t *testing.T) {
	target := &pods{scrapes: map[string]int{}, still: make(chan struct{})}
	exporter := httptest.NewServer(target)
	t.Cleanup(exporter.Close)
	client := clientFor(t, prometheus(t, exporter.URL), Config{}, local)
	since := time.Now().Truncate(2 * time.Second)

	<-target.still
	release := metric.Release{
		Namespace: "shop", New: metric.Version{Pods: "web-5d8f-.*"}, Stable: metric.Version{Pods: "web-77c4-.*"},
	}
	rows := metric.RowsFor()
	row := rows[len(rows)-1]
	ask := func(text string, err error) []metric.Series {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		series, fault := client.Query(t.Context(), since, RangeQuery{PromQL: text, Namespace: "shop", Start: since, Step: 2 * time.Second, Windows: 30})
		if fault != nil {
			t.Fatal(fault, text)
		}
		return series
	}

	// The first sample of a target is its base, and the failures begin later.
	sum := add(row.Windows(ask(row.RequestsQuery(release, metric.Dialect{}, 2*time.Second))))
	if sum.New.Bad != scrapes-3 {
		t.Errorf("%v of %d failures were counted: %+v", sum.New.Bad, scrapes-3, sum)
	}
	within := func(what string, got float64, perScrape int) {
		t.Helper()
		if most := float64(perScrape * scrapes); got > most || got < most-float64(4*perScrape) {
			t.Errorf("%s: %v of about %v", what, got, most)
		}
	}
	within("stable", sum.Stable.Total, 100)
	within("new", sum.New.Total-sum.New.Bad, 10)
	var slow []float64
	for _, boundary := range row.Boundaries(ask(row.DurationsQuery(release, metric.Dialect{}, 2*time.Second))) {
		sum := add(boundary.Windows)
		within("stable", sum.Stable.Total, 100)
		slow = append(slow, boundary.Milliseconds, sum.Stable.Bad/sum.Stable.Total)
	}
	if diff := cmp.Diff([]float64{100, 0.2, 1000, 0.1}, slow); diff != "" {
		t.Error(diff)
	}
	refused := RangeQuery{PromQL: "sum(", Start: since, Step: time.Second, Windows: 1}
	if _, fault := client.Query(t.Context(), since, refused); fault == nil || !strings.HasPrefix(fault.Why, "the source refuses: invalid parameter \"query\"") {
		t.Error(fault)
	}
}

func add(windows []metric.Window) (sum metric.Window) {
	for _, w := range windows {
		sum.New.Total, sum.New.Bad = sum.New.Total+w.New.Total, sum.New.Bad+w.New.Bad
		sum.Stable.Total, sum.Stable.Bad = sum.Stable.Total+w.Stable.Total, sum.Stable.Bad+w.Stable.Bad
	}
	return sum
}

// prometheus starts one that scrapes two pods at that address, and ends with the test.
func prometheus(t *testing.T, exporter string) string {
	t.Helper()
	dir := t.TempDir()
	address := freeAddress(t)
	config := fmt.Sprintf(`{global: {scrape_interval: 500ms}, scrape_configs: [
  {job_name: stable, metrics_path: /stable, static_configs: [{targets: [%[1]q], labels: {namespace: shop, pod: web-77c4-a}}]},
  {job_name: new, metrics_path: /new, static_configs: [{targets: [%[1]q], labels: {namespace: shop, pod: web-5d8f-a}}]}]}`, strings.TrimPrefix(exporter, "http://"))
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	server := exec.CommandContext(t.Context(), "../../bin/prometheus/prometheus", "--config.file="+dir+"/config.yaml", "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+address)
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		t.Fatal(err, "; make prometheus builds it")
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("Prometheus said:\n%s", text)
		}
	})
	return "http://" + address
}

// freeAddress is an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return address
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic && metrics

package dataplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

// The ports of the Prometheus servers, and of the endpoints that the tests serve for them.
const (
	prometheusPort = 8003
	podsPort       = 8010
	relayPort      = 8011
)

// scrape is a configuration that scrapes the proxy.
const scrape = `
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: traefik
  static_configs: [{targets: ["127.0.0.1:%d"]}]
`

// scrapePods is a configuration that scrapes the pods.
const scrapePods = `
global: {scrape_interval: %ds, scrape_timeout: 5s}
scrape_configs:
- job_name: pods
  http_sd_configs: [{url: "http://127.0.0.1:%d", refresh_interval: 1s}]
`

// writeLate sends the samples to the relay, in order.
const writeLate = `
remote_write: [{url: "http://127.0.0.1:%d", queue_config: {max_shards: 1, batch_send_deadline: 1s}}]
`

// prometheus is a real Prometheus, which can be stopped and started again.
type prometheus struct {
	t      *testing.T
	dir    string
	port   int
	args   []string
	ending context.CancelFunc
	ended  chan struct{}
}

// startPrometheus starts the server of the source default, which scrapes the proxy.
func startPrometheus(t *testing.T) *prometheus {
	t.Helper()
	return startServer(t, weir.DefaultSource, prometheusPort, fmt.Sprintf(scrape, metricsPort))
}

// startServer starts a Prometheus, and makes the MetricSource of that name for it.
func startServer(t *testing.T, name string, port int, config string, args ...string) *prometheus {
	t.Helper()
	p := &prometheus{t: t, dir: filepath.Join(testEnv.cluster.Dir(), "prometheus-"+name), port: port, args: args}
	if err := errors.Join(os.MkdirAll(p.dir, 0o755), os.WriteFile(p.config(), []byte(config), 0o644)); err != nil {
		t.Fatal(err)
	}
	p.start()
	t.Cleanup(func() { p.end() })
	source := &weir.MetricSource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	source.Spec.Prometheus = &weir.Prometheus{URL: fmt.Sprintf("http://127.0.0.1:%d", port)}
	source.Spec.LagSeconds, source.Spec.RawQueries = new(int32(2)), new(true)
	if err := testEnv.client.Create(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	return p
}

// servePods serves the list of pods for Prometheus's service discovery.
func servePods(t *testing.T) {
	t.Helper()
	serve(t, podsPort, func(w http.ResponseWriter, _ *http.Request) {
		type group struct {
			Targets []string          `json:"targets"`
			Labels  map[string]string `json:"labels"`
		}
		all := []group{}
		for _, c := range testEnv.pods.serving() {
			all = append(all, group{[]string{c.address}, map[string]string{"namespace": c.namespace, "pod": c.pod}})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(all) // Prometheus retries
	})
}

// relay receives samples by remote write, and forwards them to a port after a delay, in order.
func relay(t *testing.T, to int, late time.Duration) {
	t.Helper()
	type write struct {
		at      time.Time
		headers http.Header
		body    []byte
	}
	writes := make(chan write, 10_000)
	serve(t, relayPort, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		writes <- write{time.Now(), r.Header.Clone(), body}
		w.WriteHeader(http.StatusNoContent)
	})
	go func() {
		for {
			select {
			case <-t.Context().Done():
				return
			case next := <-writes:
				select {
				case <-t.Context().Done():
					return
				case <-time.After(time.Until(next.at.Add(late))):
				}
				if err := send(t.Context(), to, next.headers, next.body); err != nil && t.Context().Err() == nil {
					t.Errorf("sending samples on: %v", err)
				}
			}
		}
	}()
}

func send(ctx context.Context, to int, headers http.Header, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/api/v1/write", to), bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header = headers
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return errors.New(response.Status)
	}
	return nil
}

// serve serves on a port until the test ends.
func serve(t *testing.T, port int, handler http.HandlerFunc) {
	t.Helper()
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // the server ends with the test
	t.Cleanup(func() { _ = server.Close() })
}

func (p *prometheus) config() string { return filepath.Join(p.dir, "prometheus.yaml") }

func (p *prometheus) start() {
	p.t.Helper()
	log, err := os.Create(filepath.Join(testEnv.cluster.Dir(), filepath.Base(p.dir)+".log"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	ctx, ending := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(testEnv.cluster.Bin(), "..", "prometheus", "prometheus"), append([]string{
		"--config.file=" + p.config(), "--storage.tsdb.path=" + filepath.Join(p.dir, "data"), fmt.Sprintf("--web.listen-address=127.0.0.1:%d", p.port),
	}, p.args...)...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, childAttributes()
	if err := cmd.Start(); err != nil {
		p.t.Fatalf("starting Prometheus, see hack/prometheus.sh: %v", err)
	}
	p.ending, p.ended = ending, make(chan struct{})
	go func() {
		_ = cmd.Wait() // the process was killed
		close(p.ended)
	}()
}

// end kills Prometheus: samples that are not yet on disk are lost.
func (p *prometheus) end() {
	p.ending()
	<-p.ended
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic && metrics

package dataplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

const prometheusPort = 8003

// scrape has Prometheus read what the proxy counts.
const scrape = `
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: traefik
  static_configs: [{targets: ["127.0.0.1:%d"]}]
`

// prometheus is the real one, beside the proxy. It is ended and started again.
type prometheus struct {
	t      *testing.T
	dir    string
	ending context.CancelFunc
	ended  chan struct{}
}

func startPrometheus(t *testing.T) *prometheus {
	t.Helper()
	p := &prometheus{t: t, dir: filepath.Join(here.cluster.Dir(), "prometheus")}
	if err := errors.Join(os.MkdirAll(p.dir, 0o755), os.WriteFile(p.config(), fmt.Appendf(nil, scrape, metricsPort), 0o644)); err != nil {
		t.Fatal(err)
	}
	p.start()
	t.Cleanup(func() { p.end() })
	source := &weir.MetricSource{ObjectMeta: metav1.ObjectMeta{Name: weir.DefaultSource}}
	source.Spec.Prometheus = &weir.Prometheus{URL: fmt.Sprintf("http://127.0.0.1:%d", prometheusPort)}
	source.Spec.LagSeconds = new(int32(2))
	if err := here.client.Create(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *prometheus) config() string { return filepath.Join(p.dir, "prometheus.yaml") }

func (p *prometheus) start() {
	p.t.Helper()
	log, err := os.Create(filepath.Join(here.cluster.Dir(), "prometheus.log"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	ctx, ending := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(here.cluster.Bin(), "..", "prometheus", "prometheus"), "--config.file="+p.config(),
		"--storage.tsdb.path="+filepath.Join(p.dir, "data"), fmt.Sprintf("--web.listen-address=127.0.0.1:%d", prometheusPort))
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, childAttributes()
	if err := cmd.Start(); err != nil {
		p.t.Fatalf("starting Prometheus, see hack/prometheus.sh: %v", err)
	}
	p.ending, p.ended = ending, make(chan struct{})
	go func() {
		_ = cmd.Wait() // it was killed
		close(p.ended)
	}()
}

// end kills it: what it has not written down is lost.
func (p *prometheus) end() {
	p.ending()
	<-p.ended
}

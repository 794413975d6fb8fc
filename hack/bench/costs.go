// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"
)

// counter measures the costs of releases.
type counter struct {
	plane     *plane
	etcds     map[string]*clientv3.Client
	processes map[string]procfs.Proc
}

func newCounter(p *plane) (*counter, error) {
	c := &counter{plane: p, etcds: map[string]*clientv3.Client{}, processes: map[string]procfs.Proc{}}
	for name, url := range p.etcds {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
		if err != nil {
			return nil, fmt.Errorf("connecting to the etcd of %s: %w", name, err)
		}
		c.etcds[name] = client
	}
	for name, pid := range p.pids {
		var err error
		if c.processes[name], err = procfs.NewProc(pid); err != nil {
			return nil, fmt.Errorf("finding the process %s: %w", name, err)
		}
	}
	return c, nil
}

// costs are the costs between start and end.
type costs struct {
	counter *counter
	// firstRevisions are the revisions of the etcds at the start.
	firstRevisions map[string]int64
	// namespace is the namespace whose writes are counted.
	namespace string

	// writes are revisions of the etcds, by resource.
	writes map[string]int
	// stored is how many bytes each etcd uses.
	stored map[string]int64
	// requests are the rows of metricRows.
	requests map[string]float64
	// cpu and memory are by process.
	cpu    map[string]time.Duration
	memory map[string]int
	// otherCPU is the CPU time of all processes of the machine that are neither measured nor this one.
	otherCPU time.Duration
}

func (c *counter) start(ctx context.Context, namespace string) (*costs, error) {
	s := &costs{counter: c, namespace: namespace, firstRevisions: map[string]int64{}, writes: map[string]int{}, stored: map[string]int64{}}
	for name, client := range c.etcds {
		answer, err := client.Get(ctx, "none")
		if err != nil {
			return nil, fmt.Errorf("reading the revision of the etcd of %s: %w", name, err)
		}
		s.firstRevisions[name] = answer.Header.Revision
	}
	var err error
	if s.cpu, s.memory, err = c.processCosts(); err != nil {
		return nil, err
	}
	if s.otherCPU, err = c.otherCPU(s.cpu); err != nil {
		return nil, err
	}
	s.requests, err = c.requests(ctx)
	return s, err
}

func (s *costs) end(ctx context.Context) (*costs, error) {
	cpu, requests, otherCPU := s.cpu, s.requests, s.otherCPU
	var err error
	if s.cpu, s.memory, err = s.counter.processCosts(); err != nil {
		return nil, err
	}
	if s.otherCPU, err = s.counter.otherCPU(s.cpu); err != nil {
		return nil, err
	}
	s.otherCPU -= otherCPU
	for name := range s.cpu {
		s.cpu[name] -= cpu[name]
	}
	if s.requests, err = s.counter.requests(ctx); err != nil {
		return nil, err
	}
	for row := range s.requests {
		s.requests[row] -= requests[row]
	}
	for name, client := range s.counter.etcds {
		if err := s.countWrites(ctx, name, client); err != nil {
			return nil, fmt.Errorf("counting the writes to the etcd of %s: %w", name, err)
		}
	}
	return s, nil
}

// countWrites counts all writes to an etcd since the start, by any client.
func (s *costs) countWrites(ctx context.Context, name string, client *clientv3.Client) error {
	status, err := client.Status(ctx, client.Endpoints()[0])
	if err != nil {
		return err
	}
	s.stored[name] = status.DbSizeInUse
	last := status.Header.Revision
	if last == s.firstRevisions[name] {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for answer := range client.Watch(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithRev(s.firstRevisions[name]+1), clientv3.WithProgressNotify()) {
		if err := answer.Err(); errors.Is(err, rpctypes.ErrCompacted) {
			fmt.Fprintf(os.Stderr, "# the writes to the etcd of %s are not counted, because it has compacted the first of them\n", name)
			return nil
		} else if err != nil {
			return err
		}
		for _, e := range answer.Events {
			if e.Kv.ModRevision > last {
				return nil
			}
			if resource := resourceOf(string(e.Kv.Key), s.namespace); resource != "" {
				s.writes[resource]++
			}
		}
		// After a progress notification no event before its revision follows.
		if answer.IsProgressNotify() && answer.Header.Revision >= last {
			return nil
		}
		if err := client.RequestProgress(ctx); err != nil {
			return err
		}
	}
	return errors.New("the watch ended")
}

// resourceOf returns the part of a key before the namespace: pods of /registry/pods/NAMESPACE/NAME.
// It is empty for keys of other namespaces.
func resourceOf(key, namespace string) string {
	parts := strings.Split(key, "/")
	if i := slices.Index(parts, namespace); i > 2 {
		return parts[i-1]
	}
	return ""
}

// processCosts returns the CPU time and the memory of each process.
func (c *counter) processCosts() (map[string]time.Duration, map[string]int, error) {
	cpu, memory := map[string]time.Duration{}, map[string]int{}
	for name, p := range c.processes {
		stat, err := p.Stat()
		if err != nil {
			return nil, nil, fmt.Errorf("measuring %s: %w", name, err)
		}
		cpu[name] = time.Duration(stat.CPUTime() * float64(time.Second))
		memory[name] = stat.ResidentMemory()
	}
	return cpu, memory, nil
}

// otherCPU returns the CPU time of the machine without that of the measured processes and of this
// one. It leaves out interrupts, because they belong to no process.
func (c *counter) otherCPU(cpu map[string]time.Duration) (time.Duration, error) {
	machine, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, fmt.Errorf("measuring this machine: %w", err)
	}
	all, err := machine.Stat()
	if err != nil {
		return 0, fmt.Errorf("measuring this machine: %w", err)
	}
	self, err := machine.Self()
	if err != nil {
		return 0, fmt.Errorf("measuring this process: %w", err)
	}
	own, err := self.Stat()
	if err != nil {
		return 0, fmt.Errorf("measuring this process: %w", err)
	}
	t := all.CPUTotal
	sum := time.Duration((t.User + t.Nice + t.System + t.Steal - own.CPUTime()) * float64(time.Second))
	for _, used := range cpu {
		sum -= used
	}
	return sum, nil
}

// requests adds up the metrics of kube-apiserver, of weir-apiserver and of its controllers, which
// have a port of their own.
func (c *counter) requests(ctx context.Context) (map[string]float64, error) {
	sum := map[string]float64{}
	for _, server := range []*rest.Config{c.plane.config, c.plane.weir} {
		if server == nil {
			continue
		}
		client, err := rest.HTTPClientFor(server)
		if err != nil {
			return nil, err
		}
		if err := addMetrics(ctx, client, server.Host+"/metrics", sum); err != nil {
			return nil, err
		}
	}
	if c.plane.weir == nil {
		return sum, nil
	}
	return sum, addMetrics(ctx, http.DefaultClient, c.plane.cluster.Metrics(), sum)
}

// addMetrics adds the metrics of a page to the rows of metricRows.
func addMetrics(ctx context.Context, client *http.Client, page string, sum map[string]float64) error {
	body, err := fetch(ctx, client, page)
	if err != nil {
		return err
	}
	defer body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(body)
	if err != nil {
		return fmt.Errorf("reading %s: %w", page, err)
	}
	for family, rows := range metricRows {
		for _, m := range families[family].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			for _, row := range rows(labels) {
				sum[row] += m.GetCounter().GetValue()
			}
		}
	}
	return nil
}

// metricRows are the rows of the table in which a metric is counted, by its labels.
var metricRows = map[string]func(labels map[string]string) []string{
	"apiserver_request_total": func(l map[string]string) []string {
		var rows []string
		if slices.Contains([]string{"GET", "LIST"}, l["verb"]) {
			rows = append(rows, "reads", "reads of "+l["resource"])
		}
		if l["code"] == strconv.Itoa(http.StatusConflict) {
			rows = append(rows, "conflicts", "conflicts of "+l["resource"])
		}
		if l["resource"] == "subjectaccessreviews" && l["verb"] == http.MethodPost {
			rows = append(rows, "permission checks")
		}
		return rows
	},
	"weir_writes_total": func(l map[string]string) []string {
		if l["result"] != "ok" {
			return []string{"own writes refused"}
		}
		return []string{"own writes", "own writes of " + l["kind"]}
	},
	"controller_runtime_reconcile_total": func(l map[string]string) []string {
		return []string{"passes of " + l["controller"]}
	},
}

// fetch opens a page of a server. The caller closes it.
func fetch(ctx context.Context, client *http.Client, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json, text/plain")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		answer, err := io.ReadAll(io.LimitReader(response.Body, 1024))
		return nil, errors.Join(fmt.Errorf("reading %s: %s: %s", url, response.Status, bytes.TrimSpace(answer)), err)
	}
	return response.Body, nil
}

// profile writes a CPU profile of weir-apiserver during the next ten seconds, and a profile of its
// allocations, into a directory.
func (p *plane) profile(ctx context.Context, dir, name string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(p.weir)
	if err != nil {
		return err
	}
	for kind, page := range map[string]string{"cpu": "profile?seconds=10", "allocs": "allocs"} {
		body, err := fetch(ctx, client, p.weir.Host+"/debug/pprof/"+page)
		if err != nil {
			return fmt.Errorf("profiling weir-apiserver: %w", err)
		}
		content, err := io.ReadAll(body)
		body.Close()
		if err != nil {
			return fmt.Errorf("profiling weir-apiserver: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+"."+kind), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
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

// counter measures what releases cost: writes to each etcd, requests to each
// server, CPU and memory of each process.
type counter struct {
	stores    map[string]*clientv3.Client
	servers   []*rest.Config
	processes map[string]procfs.Proc
	// controller is the page of metrics of weir-controller, if it is ours.
	controller string
}

func newCounter(p place) (*counter, error) {
	c := &counter{stores: map[string]*clientv3.Client{}, servers: p.servers, controller: p.controller, processes: map[string]procfs.Proc{}}
	for _, s := range p.stores {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.value}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
		if err != nil {
			return nil, fmt.Errorf("reaching the etcd %s: %w", s.name, err)
		}
		c.stores[s.name] = client
	}
	for _, p := range p.processes {
		pid, err := strconv.Atoi(p.value)
		if err != nil {
			return nil, fmt.Errorf("reading the number of process %s: %w", p.name, err)
		}
		if c.processes[p.name], err = procfs.NewProc(pid); err != nil {
			return nil, fmt.Errorf("finding process %s: %w", p.name, err)
		}
	}
	return c, nil
}

// spent is what was counted since start, and after end.
type spent struct {
	counter *counter
	// first is the revision of each etcd at the start.
	first map[string]int64
	// namespace is whose writes count.
	namespace string

	// writes are by resource.
	writes map[string]int
	// stored is how many bytes each etcd has in use.
	stored map[string]int64
	// requests are by what they did.
	requests map[string]float64
	cpu      map[string]time.Duration
	memory   map[string]int
	// elsewhere is the CPU that neither these processes nor the driver have used.
	elsewhere time.Duration
}

func (c *counter) start(ctx context.Context, namespace string) (*spent, error) {
	s := &spent{counter: c, namespace: namespace, first: map[string]int64{}, writes: map[string]int{}, stored: map[string]int64{}}
	for name, client := range c.stores {
		answer, err := client.Get(ctx, "none")
		if err != nil {
			return nil, fmt.Errorf("reading the revision of the etcd %s: %w", name, err)
		}
		s.first[name] = answer.Header.Revision
	}
	var err error
	if s.cpu, s.memory, err = c.used(); err != nil {
		return nil, err
	}
	if s.elsewhere, err = c.elsewhere(s.cpu); err != nil {
		return nil, err
	}
	s.requests, err = c.requests(ctx)
	return s, err
}

func (s *spent) end(ctx context.Context) (*spent, error) {
	before, asked, elsewhere := s.cpu, s.requests, s.elsewhere
	var err error
	if s.cpu, s.memory, err = s.counter.used(); err != nil {
		return nil, err
	}
	if s.elsewhere, err = s.counter.elsewhere(s.cpu); err != nil {
		return nil, err
	}
	s.elsewhere -= elsewhere
	for name := range s.cpu {
		s.cpu[name] -= before[name]
	}
	if s.requests, err = s.counter.requests(ctx); err != nil {
		return nil, err
	}
	for what := range s.requests {
		s.requests[what] -= asked[what]
	}
	for name, client := range s.counter.stores {
		if err := s.replay(ctx, name, client); err != nil {
			return nil, fmt.Errorf("counting the writes of the etcd %s: %w", name, err)
		}
	}
	return s, nil
}

// replay counts all that was written since the start, whoever wrote it.
func (s *spent) replay(ctx context.Context, name string, client *clientv3.Client) error {
	status, err := client.Status(ctx, client.Endpoints()[0])
	if err != nil {
		return err
	}
	s.stored[name] = status.DbSizeInUse
	last := status.Header.Revision
	if last == s.first[name] {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for answer := range client.Watch(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithRev(s.first[name]+1), clientv3.WithProgressNotify()) {
		if err := answer.Err(); errors.Is(err, rpctypes.ErrCompacted) {
			fmt.Fprintf(os.Stderr, "# writes of the etcd %s are not counted: it has forgotten the beginning of the round\n", name)
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
		// Only a notification says that nothing before its revision is to come.
		if answer.IsProgressNotify() && answer.Header.Revision >= last {
			return nil
		}
		if err := client.RequestProgress(ctx); err != nil {
			return err
		}
	}
	return errors.New("the watch ended")
}

// resourceOf is the part of a key before the namespace: /registry/pods/NAMESPACE/NAME.
func resourceOf(key, namespace string) string {
	parts := strings.Split(key, "/")
	if i := slices.Index(parts, namespace); i > 2 {
		return parts[i-1]
	}
	return ""
}

func (c *counter) used() (map[string]time.Duration, map[string]int, error) {
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

// elsewhere is the CPU of this machine but for that of those processes and of the
// driver. Interrupts are left out, since they cannot be told apart.
func (c *counter) elsewhere(cpu map[string]time.Duration) (time.Duration, error) {
	if len(cpu) == 0 {
		return 0, nil // those that are measured run on another machine
	}
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
		return 0, fmt.Errorf("measuring the driver: %w", err)
	}
	driver, err := self.Stat()
	if err != nil {
		return 0, fmt.Errorf("measuring the driver: %w", err)
	}
	t := all.CPUTotal
	sum := time.Duration((t.User + t.Nice + t.System + t.Steal - driver.CPUTime()) * float64(time.Second))
	for _, used := range cpu {
		sum -= used
	}
	return sum, nil
}

func (c *counter) requests(ctx context.Context) (map[string]float64, error) {
	sum := map[string]float64{}
	for _, server := range c.servers {
		client, err := rest.HTTPClientFor(server)
		if err != nil {
			return nil, err
		}
		page, err := url.JoinPath(server.Host, "metrics")
		if err != nil {
			return nil, err
		}
		if err := scrape(ctx, client, page, sum); err != nil {
			return nil, err
		}
	}
	if c.controller != "" {
		return sum, scrape(ctx, http.DefaultClient, c.controller, sum)
	}
	return sum, nil
}

// scrape adds what a page of metrics says.
func scrape(ctx context.Context, client *http.Client, page string, sum map[string]float64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("reading metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, err := io.ReadAll(io.LimitReader(response.Body, 1024))
		return errors.Join(err, fmt.Errorf("reading %s: %s: %s", page, response.Status, said))
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return fmt.Errorf("reading %s: %w", page, err)
	}
	for family, rows := range counted {
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

// counted are the rows of the table that a counter counts in, by its labels.
var counted = map[string]func(labels map[string]string) []string{
	"apiserver_request_total": func(l map[string]string) []string {
		var rows []string
		if slices.Contains([]string{"GET", "LIST"}, l["verb"]) {
			rows = append(rows, "reads", "reads of "+l["resource"])
		}
		if l["code"] == strconv.Itoa(http.StatusConflict) {
			rows = append(rows, "conflicts", "conflicts of "+l["resource"])
		}
		if l["resource"] == "subjectaccessreviews" && l["verb"] == http.MethodPost {
			rows = append(rows, "permissions asked for")
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

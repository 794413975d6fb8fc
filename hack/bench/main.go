// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench measures how long releases take and what they cost. It starts a control plane,
// releases applications on it, approves each step as soon as the step waits, and prints a table.
// docs/performance.md explains the tables.
//
//	bench                    Weir releases 20 applications at once
//	bench -peer argo         the same with Argo Rollouts and with Weir, in turn, and a comparison
//	bench -measure verbs     something other than releases
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-rollouts/weir/test/cluster"
)

// options are the flags.
type options struct {
	releases int
	rate     float64
	replicas int
	steps    string
	traffic  bool
	idle     int
	patience time.Duration

	measure  string
	requests float64
	duration time.Duration
	watchers int

	peer  string
	pairs int

	podReady cluster.Range
	heap     string
	profiles string
}

// measures are the values of -measure.
var measures = map[string]func(*bench, context.Context, *latencies) error{
	"admission": (*bench).measureAdmission,
	"lists":     (*bench).measureLists,
	"restart":   (*bench).measureRestart,
	"scale":     (*bench).measureScale,
	"verbs":     (*bench).measureVerbs,
	"views":     (*bench).measureViews,
}

// peers are the systems that -peer compares with Weir.
var peers = map[string]func(options) system{
	"argo": func(o options) system { return argo{o} },
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = run(ctx, o)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&o.releases, "n", 20, "number of releases")
	f.Float64Var(&o.rate, "rate", 0, "new releases per second; 0 starts all at once")
	f.IntVar(&o.replicas, "replicas", 10, "pods of each application")
	f.StringVar(&o.steps, "steps", "20%,50%,100%", "sizes of the steps; each step waits for an approval")
	f.BoolVar(&o.traffic, "traffic", false, "route by a Service and an Ingress; the share of a step is its size")
	f.IntVar(&o.idle, "idle", 0, "number of further applications without pods that are not released")
	f.DurationVar(&o.patience, "patience", 30*time.Second, "an approval is lost, and is sent again, if its step still waits after this time")

	f.StringVar(&o.measure, "measure", "", "measure something other than releases: "+names(measures))
	f.Float64Var(&o.requests, "requests", 100, "requests per second, with -measure")
	f.DurationVar(&o.duration, "for", 30*time.Second, "how long requests are sent, with -measure")
	f.IntVar(&o.watchers, "watchers", 500, "number of clients that watch all objects, with -measure lists")

	f.StringVar(&o.peer, "peer", "", "compare Weir with another system: "+names(peers))
	f.IntVar(&o.pairs, "pairs", 5, "how often both systems release, with -peer")

	podReady := f.String("pod-ready", "20ms..80ms", "how long a simulated pod takes to become ready")
	f.StringVar(&o.heap, "heap", "", "the GOMEMLIMIT of weir-apiserver, such as 560MiB")
	f.StringVar(&o.profiles, "profile", "", "a directory for a CPU profile of weir-apiserver, of the first ten seconds of the releases, and a profile of its allocations")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; all settings are flags", f.Arg(0))
	}
	var err error
	if o.podReady, err = cluster.ParseRange(*podReady); err != nil {
		return o, err
	}
	return o, o.validate()
}

// memorySize is what the runtime of Go accepts as a GOMEMLIMIT.
var memorySize = regexp.MustCompile(`^[1-9][0-9]*(B|KiB|MiB|GiB|TiB)?$`)

func (o options) validate() error {
	switch {
	case o.releases < 1 || o.replicas < 1 || o.idle < 0 || o.rate < 0:
		return errors.New("-n and -replicas must be at least 1, -idle and -rate at least 0")
	case o.requests <= 0 || o.duration <= 0 || o.watchers < 1:
		return errors.New("-requests, -for and -watchers must be above 0")
	case o.heap != "" && !memorySize.MatchString(o.heap):
		return fmt.Errorf("-heap=%s must be a size such as 560MiB", o.heap)
	case o.measure != "" && measures[o.measure] == nil:
		return fmt.Errorf("-measure=%s must be one of %s", o.measure, names(measures))
	case o.peer == "":
		return nil
	case peers[o.peer] == nil:
		return fmt.Errorf("-peer=%s must be one of %s", o.peer, names(peers))
	case o.pairs < 1:
		return errors.New("-pairs must be at least 1")
	case o.measure != "" || o.traffic || o.profiles != "":
		return errors.New("-peer cannot be combined with -measure, -traffic and -profile")
	case slices.ContainsFunc(strings.Split(o.steps, ","), func(size string) bool { return !strings.HasSuffix(size, "%") }):
		return errors.New("-peer requires steps in percent")
	}
	return nil
}

func run(ctx context.Context, o options) error {
	ctrl.SetLogger(klog.Background())
	if o.peer != "" {
		return comparePairs(ctx, o)
	}
	return withSystem(ctx, o, weir{o}, func(ctx context.Context, b *bench) error {
		if o.measure == "" {
			unheld, released, err := b.measureReleases(ctx)
			if err != nil {
				return err
			}
			return released.print(os.Stdout, unheld)
		}
		measured := newLatencies()
		if err := measures[o.measure](b, ctx, measured); err != nil {
			return fmt.Errorf("measuring %s: %w", o.measure, err)
		}
		return measured.print(os.Stdout)
	})
}

// withSystem starts a control plane with a system, measures, and ends both.
func withSystem(ctx context.Context, o options, s system, measure func(context.Context, *bench) error) (err error) {
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &plane{fail: cancel}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := s.start(ctx, p); err != nil {
		return err
	}
	b, err := newBench(o, s, p)
	if err != nil {
		return err
	}
	fmt.Printf("# %d releases of %d pods, steps %s, traffic %t, %d idle applications; the control plane started in %.0f s\n",
		o.releases, o.replicas, o.steps, o.traffic, o.idle, time.Since(began).Seconds())
	return measure(ctx, b)
}

func names[V any](of map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(of)), ", ")
}

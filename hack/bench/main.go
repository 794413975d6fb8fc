// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench answers: how long does a release take, what does it cost, and is
// any approval lost? It drives releases on a real control plane, its own or one
// that somebody else has started, and prints one table. docs/performance.md says
// how to read it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-rollouts/weir/test/cluster"
)

// options are the flags.
type options struct {
	place    place
	releases int
	rounds   int
	rate     float64
	replicas int
	steps    string
	style    string
	traffic  bool
	idle     int
	approve  string
	patience time.Duration
	// measure is what is measured instead of releases, if any.
	measure  string
	requests float64
	lasting  time.Duration
	watchers int
	// peer is the system that Weir is compared with, if any.
	peer     string
	peerArgs string
	pairs    int
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
	podReady := ""
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&o.releases, "n", 20, "releases in a round")
	f.IntVar(&o.rounds, "rounds", 1, "rounds, one after the other, of the same applications")
	f.Float64Var(&o.rate, "rate", 0, "new releases per second; 0 is all at once")
	f.IntVar(&o.replicas, "replicas", 10, "pods of each application")
	f.StringVar(&o.steps, "steps", "20%,50%,100%", "sizes of the steps; each waits for an approval")
	f.StringVar(&o.style, "style", "partition", "partition, canary or bluegreen")
	f.BoolVar(&o.traffic, "traffic", false, "route by a Service and an Ingress; the share of a step is its size")
	f.IntVar(&o.idle, "idle", 0, "Deployments without pods, each with a Rollout, that are there besides")
	f.StringVar(&o.approve, "approve", "verb", "verb, or status: a patch of the status, which other servers of this API need")
	f.DurationVar(&o.patience, "patience", 30*time.Second, "an approval whose step still waits after this is lost, and sent again")
	f.StringVar(&o.measure, "measure", "", "instead of releases: "+measured())
	f.Float64Var(&o.requests, "requests", 100, "requests per second, with -measure")
	f.DurationVar(&o.lasting, "for", 30*time.Second, "how long requests are sent, with -measure")
	f.IntVar(&o.watchers, "watchers", 500, "clients that watch all objects, with -measure lists")
	f.BoolVar(&o.place.apart, "apart", false, "run weir-controller apart, and not the controllers in the process of weir-apiserver")
	f.StringVar(&o.peer, "peer", "", "compare Weir with another system, each in turn on a control plane of its own: "+peerNames())
	f.StringVar(&o.peerArgs, "peer-args", "", "more arguments of the peer's controller, separated by spaces")
	f.IntVar(&o.pairs, "pairs", 5, "how often both are driven, with -peer")
	f.Func("heap", "the GOMEMLIMIT of Weir's processes, such as 560MiB", o.place.limitHeap)
	f.StringVar(&podReady, "pod-ready", "20ms..80ms", "how long a simulated pod takes to become ready")
	f.StringVar(&o.place.profiles, "profile", "", "a directory for CPU profiles of Weir's processes, of the first ten seconds of each round; without -kubeconfig only")
	f.StringVar(&o.place.kubeconfig, "kubeconfig", "", "a cluster that is there, instead of one of our own")
	f.Var(&o.place.stores, "etcd", "NAME=URL of an etcd whose writes are counted, with -kubeconfig; may be repeated")
	f.Var(&o.place.processes, "process", "NAME=PID of a process whose CPU and memory are measured, with -kubeconfig; may be repeated")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.place.podReady, err = cluster.ParseRange(podReady); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("what is %s?", strconv.Quote(f.Arg(0)))
	}
	return o, o.check()
}

// check refuses flags that make no sense, or not together.
func (o options) check() error {
	switch {
	case o.releases < 1 || o.rounds < 1 || o.replicas < 1 || o.idle < 0 || o.rate < 0:
		return errors.New("-n, -rounds and -replicas are at least 1, -idle and -rate at least 0")
	case o.approve != "verb" && o.approve != "status":
		return fmt.Errorf("-approve=%s: want verb or status", o.approve)
	case styles[o.style] == nil:
		return fmt.Errorf("-style=%s: want partition, canary or bluegreen", o.style)
	case o.measure != "" && measures[o.measure] == nil:
		return fmt.Errorf("-measure=%s: want %s", o.measure, measured())
	case o.measure != "" && o.place.kubeconfig != "":
		return errors.New("-measure goes without -kubeconfig")
	case o.requests <= 0 || o.lasting <= 0 || o.watchers < 1:
		return errors.New("-requests, -for and -watchers are above 0")
	case o.place.kubeconfig != "" && o.place.profiles+o.place.heap != "":
		return errors.New("-profile and -heap go without -kubeconfig")
	case o.place.kubeconfig == "" && len(o.place.stores)+len(o.place.processes) > 0:
		return errors.New("-etcd and -process go with -kubeconfig")
	case o.peer != "":
		return o.checkPeer()
	}
	return nil
}

// checkPeer refuses what a comparison does not do.
func (o options) checkPeer() error {
	switch {
	case peers[o.peer] == nil:
		return fmt.Errorf("-peer=%s: want %s", o.peer, peerNames())
	case o.pairs < 1:
		return errors.New("-pairs is at least 1")
	case o.measure != "" || o.rounds != 1 || o.traffic || o.style != "partition" || o.place.kubeconfig != "" || o.place.profiles != "":
		return errors.New("-peer goes without -measure, -rounds, -traffic, -style, -kubeconfig and -profile")
	case slices.ContainsFunc(strings.Split(o.steps, ","), func(size string) bool { return !strings.HasSuffix(size, "%") }):
		return errors.New("-peer wants steps in percent")
	}
	return nil
}

func run(ctx context.Context, o options) error {
	ctrl.SetLogger(klog.Background())
	if o.peer != "" {
		return compare(ctx, o)
	}
	return with(ctx, o, weir{o}, func(ctx context.Context, b *bench) error {
		if o.measure == "" {
			return b.eachRound(ctx)
		}
		t := newTable()
		if err := measures[o.measure](b, ctx, t); err != nil {
			return fmt.Errorf("measuring %s: %w", o.measure, err)
		}
		return t.print(os.Stdout)
	})
}

// with does something with a system on a control plane, which then ends.
func with(ctx context.Context, o options, s system, do func(context.Context, *bench) error) (err error) {
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o.place.fail = cancel
	defer func() { err = errors.Join(err, o.place.close()) }()
	o.place.profiling = o.measure == "scale"
	if err := o.place.open(ctx, s); err != nil {
		return err
	}
	b, err := newBench(o, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.clean(context.WithoutCancel(ctx))) }()
	fmt.Printf("# %d releases of %d pods, steps %s, %s, traffic %t, %d idle beside; a control plane after %.0f s\n",
		o.releases, o.replicas, o.steps, o.style, o.traffic, o.idle, time.Since(began).Seconds())
	return do(ctx, b)
}

// eachRound drives round after round, and prints a table of each.
func (b *bench) eachRound(ctx context.Context) error {
	floor, err := b.ready(ctx)
	if err != nil {
		return err
	}
	for round := range b.rounds {
		r, err := b.round(ctx, round+1)
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		fmt.Printf("\n# round %d of %d\n", round+1, b.rounds)
		if err := r.print(os.Stdout, floor); err != nil {
			return err
		}
	}
	return nil
}

// ready measures the floor, and makes the applications.
func (b *bench) ready(ctx context.Context) (floor *result, err error) {
	if floor, err = b.floor(ctx); err != nil {
		return nil, fmt.Errorf("changing Deployments that nobody holds: %w", err)
	}
	if err := b.prepare(ctx); err != nil {
		return nil, fmt.Errorf("making the applications: %w", err)
	}
	return floor, nil
}

func measured() string { return strings.Join(slices.Sorted(maps.Keys(measures)), ", ") }

// named is a flag of NAME=VALUE that may be repeated.
type named []entry

type entry struct{ name, value string }

func (n *named) String() string { return fmt.Sprint(*n) }

func (n *named) Set(s string) error {
	name, value, found := strings.Cut(s, "=")
	if !found {
		return errors.New("want NAME=VALUE")
	}
	*n = append(*n, entry{name, value})
	return nil
}

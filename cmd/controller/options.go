// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-rollouts/weir/pkg/batch"
)

// options are the flags.
type options struct {
	kubeconfig      string
	leaderElect     bool
	leaderNamespace string
	metricsAddress  string
	profiling       bool
	probeAddress    string
	configuration   []string
	concurrency     int
	historyLimit    int
	historyAge      time.Duration
	podLabels       string
	verbosity       int
}

func defaults() options {
	return options{
		leaderElect: true, leaderNamespace: "weir-system", configuration: []string{"weir-system", "kruise-rollout"},
		metricsAddress: ":8080", probeAddress: ":8081", concurrency: 16, historyLimit: 10,
		podLabels: string(batch.LabelAlways),
	}
}

func (o *options) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "file that says how to reach the API server; empty inside a cluster")
	f.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect, "act only while holding the lease, so that replicas do not act twice")
	f.StringVar(&o.leaderNamespace, "leader-election-namespace", o.leaderNamespace, "namespace of the lease")
	f.StringSliceVar(&o.configuration, "configuration-namespaces", o.configuration, "where the ConfigMap kruise-rollout-configuration with scripts for routers is looked for; the first that has a script counts")
	f.StringVar(&o.metricsAddress, "metrics-bind-address", o.metricsAddress, "where /metrics is served; 0 turns it off")
	f.BoolVar(&o.profiling, "profiling", o.profiling, "serve profiles under /debug/pprof/ beside /metrics, to anybody who reaches it")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", o.probeAddress, "where /healthz and /readyz are served")
	f.IntVar(&o.concurrency, "concurrency", o.concurrency, "how many objects of each kind are worked on at once")
	f.IntVar(&o.historyLimit, "history-limit", o.historyLimit, "how many histories of releases are kept for each Rollout, at least 1")
	f.DurationVar(&o.historyAge, "history-age", o.historyAge, "how old they may become, such as 2160h; looked at when a release starts, and 0 means as old as they like")
	f.StringVar(&o.podLabels, "pod-batch-labels", o.podLabels, "which releases' pods are labelled with their batch: always, a write for each pod, or named, of those whose workload has a rollout-id and of blue-green ones")
	f.IntVarP(&o.verbosity, "v", "v", o.verbosity, "how much to log: 0 what an operator must see, 4 every plan")
}

// validate refuses what makes no sense.
func (o *options) validate() error {
	if o.historyLimit < 1 || o.historyAge < 0 {
		return errors.New("--history-limit must be at least 1, and --history-age not negative")
	}
	if !slices.Contains([]batch.PodLabels{batch.LabelAlways, batch.LabelNamed}, batch.PodLabels(o.podLabels)) {
		return fmt.Errorf("--pod-batch-labels must be %s or %s", batch.LabelAlways, batch.LabelNamed)
	}
	if len(o.configuration) == 0 || slices.Contains(o.configuration, "") {
		return errors.New("--configuration-namespaces must name namespaces")
	}
	return nil
}

func usage(f *pflag.FlagSet) {
	fmt.Fprintf(f.Output(), `weir-controller releases workloads step by step, as their Rollouts say.

It needs the API of rollouts.kruise.io, which weir-apiserver serves, and the
rights of the cluster role weir-controller.

Flags:
%s`, f.FlagUsages())
}

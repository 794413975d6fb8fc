// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Options are the flags of the controllers.
type Options struct {
	// Controllers are the names of those that run, with commas between them, or All, or None.
	Controllers     string
	LeaderElect     bool
	LeaderNamespace string
	MetricsAddress  string
	Profiling       bool
	ProbeAddress    string
	Configuration   []string
	Concurrency     int
	HistoryLimit    int
	HistoryAge      time.Duration
	PodLabels       string
	PodsCheck       string
	SourceHosts     []string
}

// podsChecks are what may be done about new pods that crash, where a plan has no analysis.
var podsChecks = map[string]rollouts.OnFail{"wait": rollouts.OnFailWait, "report": rollouts.OnFailReport, "off": ""}

// All is the name of all controllers, and None that of none.
const (
	All  = "all"
	None = "none"
)

// NewOptions returns the defaults.
func NewOptions() Options {
	return Options{
		Controllers: All, LeaderElect: true, LeaderNamespace: "weir-system", Configuration: []string{"weir-system", "kruise-rollout"},
		MetricsAddress: ":8080", ProbeAddress: ":8081", Concurrency: 16, HistoryLimit: 10, PodLabels: string(planner.LabelAlways), PodsCheck: "wait",
	}
}

// AddFlags adds the flags of the controllers.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Controllers, "controllers", o.Controllers, fmt.Sprintf("which controllers run: %s, %s, or names of %v with commas between them", All, None, Names()))
	f.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "act only while holding the lease, so that replicas do not act twice")
	f.StringVar(&o.LeaderNamespace, "leader-election-namespace", o.LeaderNamespace, "namespace of the lease")
	f.StringSliceVar(&o.Configuration, "configuration-namespaces", o.Configuration, "where the ConfigMap kruise-rollout-configuration with scripts for routers is looked for; the first that has a script counts")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", o.MetricsAddress, "where /metrics of the controllers is served; 0 turns it off")
	f.StringVar(&o.ProbeAddress, "health-probe-bind-address", o.ProbeAddress, "where /healthz and /readyz of the controllers are served; 0 turns it off")
	f.IntVar(&o.Concurrency, "concurrency", o.Concurrency, "how many objects of each kind are worked on at once")
	f.IntVar(&o.HistoryLimit, "history-limit", o.HistoryLimit, "how many histories of releases are kept for each Rollout, at least 1")
	f.DurationVar(&o.HistoryAge, "history-age", o.HistoryAge, "how old they may become, such as 2160h; looked at when a release starts, and 0 means as old as they like")
	f.StringVar(&o.PodsCheck, "pods-check", o.PodsCheck, "what is done while new pods crash and the plan has no analysis: wait, so that no time ends the pause of a step; report, by an event; or off")
	f.StringSliceVar(&o.SourceHosts, "source-hosts", o.SourceHosts, "hosts that MetricSources may name, such as *.monitoring.svc; none means all but this machine, link-local addresses and kube-apiserver; http checks ask a Service that is listed without a pattern, such as tickets.shop.svc, also at endpoints that are not pods")
	f.StringVar(&o.PodLabels, "pod-batch-labels", o.PodLabels, "which releases' pods are labelled with their batch: always, a write for each pod, or named, of those whose workload has a rollout-id and of blue-green ones")
}

// Validate refuses what makes no sense.
func (o *Options) Validate() error {
	if o.HistoryLimit < 1 || o.HistoryAge < 0 {
		return errors.New("--history-limit must be at least 1, and --history-age not negative")
	}
	if !slices.Contains([]planner.PodLabels{planner.LabelAlways, planner.LabelNamed}, planner.PodLabels(o.PodLabels)) {
		return fmt.Errorf("--pod-batch-labels must be %s or %s", planner.LabelAlways, planner.LabelNamed)
	}
	if _, ok := podsChecks[o.PodsCheck]; !ok {
		return errors.New("--pods-check must be wait, report or off")
	}
	if len(o.Configuration) == 0 || slices.Contains(o.Configuration, "") {
		return errors.New("--configuration-namespaces must name namespaces")
	}
	return o.validateNames()
}

func (o *Options) validateNames() error {
	if o.Controllers == All || o.Controllers == None {
		return nil
	}
	for name := range strings.SplitSeq(o.Controllers, ",") {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("--controllers %q: must be %s, %s, or names of %v", name, All, None, Names())
		}
	}
	return nil
}

// Enabled reports whether any controller runs.
func (o *Options) Enabled() bool { return o.Controllers != None }

// runs reports whether the controller of a name does.
func (o *Options) runs(name string) bool {
	return o.Controllers == All || slices.Contains(strings.Split(o.Controllers, ","), name)
}

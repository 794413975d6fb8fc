// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/planner"
)

// Options are the flags of the controllers.
type Options struct {
	// Controllers are the comma-separated names of the controllers that run, or All, or None.
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
	// ReleaseAnnotations replaces default keys of the annotations that say what was built into a release, by field.
	ReleaseAnnotations map[string]string
	PodLabels          string
	PodsCheck          string
	SourceHosts        []string
}

// podsChecks are the reactions to new pods that crash if a plan has no analysis.
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
	f.StringToStringVar(&o.ReleaseAnnotations, "release-annotations", o.ReleaseAnnotations, "other annotations of the pod template or the workload to record with a release, as FIELD=KEY; the fields are version, commit, author, repository and link, the default keys are those of org.opencontainers.image, and an empty KEY records none")
	f.StringVar(&o.PodsCheck, "pods-check", o.PodsCheck, "what is done while new pods crash and the plan has no analysis: wait, so that no time ends the pause of a step; report, by an event; or off")
	f.StringSliceVar(&o.SourceHosts, "source-hosts", o.SourceHosts, "hosts that MetricSources may name, such as *.monitoring.svc; none means all but this machine, link-local addresses and kube-apiserver; http checks ask a Service that is listed without a pattern, such as tickets.shop.svc, also at endpoints that are not pods")
	f.StringVar(&o.PodLabels, "pod-batch-labels", o.PodLabels, "which releases' pods are labelled with their batch: always, a write for each pod, or named, of those whose workload has a rollout-id and of blue-green ones")
}

// Validate returns an error for invalid options.
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
	for field, key := range o.ReleaseAnnotations {
		if _, ok := rollouts.DefaultReleaseAnnotations[field]; !ok || key != "" && len(validation.IsQualifiedName(key)) > 0 {
			return fmt.Errorf("--release-annotations %s=%s must be FIELD=KEY, with one of the fields %s and the key of an annotation",
				field, key, strings.Join(slices.Sorted(maps.Keys(rollouts.DefaultReleaseAnnotations)), ", "))
		}
	}
	return o.validateNames()
}

// releaseAnnotations returns the keys of the annotations that say what was built into a release, by field.
func (o *Options) releaseAnnotations() map[string]string {
	keys := maps.Clone(rollouts.DefaultReleaseAnnotations)
	maps.Copy(keys, o.ReleaseAnnotations)
	return keys
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

// isControllerEnabled reports whether the controller with this name runs.
func (o *Options) isControllerEnabled(name string) bool {
	return o.Controllers == All || slices.Contains(strings.Split(o.Controllers, ","), name)
}

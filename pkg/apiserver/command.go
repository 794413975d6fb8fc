// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
)

const longDescription = `weir-apiserver serves the API group rollouts.kruise.io as an aggregated API
server of Kubernetes: Rollouts with verbs such as promote and abort, and the
admission webhook that holds a workload the moment its template changes. It
keeps its objects in an etcd of its own, embedded unless --etcd-servers names
another, and asks the cluster who a caller is and what the caller may do.`

// sections are the flags that most people need, by topic and in order. A text in the second column replaces
// the flag's own long description in this short help; --help-all shows the long one.
var sections = []struct {
	name  string
	flags [][2]string
}{
	{"Serving", [][2]string{
		{"bind-address", "address to listen on"},
		{"secure-port", "port of the API, and of the admission webhook of workloads"},
		{"webhook-port", ""},
		{"tls-mode", ""},
		{"tls-cert-file", "serving certificate of all ports, read again when it changes"},
		{"tls-private-key-file", "private key of the certificate"},
		{"shutdown-delay-duration", "how long to continue serving, but not ready, once told to stop; give load balancers time to notice"},
	}},
	{"Storage", [][2]string{
		{"data-dir", ""},
		{"data-limit", ""},
		{"objects-data-limit", ""},
		{"namespace-data-limit", ""},
		{"ephemeral", ""},
		{"etcd-servers", "an etcd to use instead of the embedded one, needed for more than one replica"},
		{"etcd-cafile", "certificate authority of that etcd"},
		{"etcd-certfile", "client certificate for that etcd"},
		{"etcd-keyfile", "private key of the client certificate"},
		{"etcd-certificates", ""},
		{"encryption-provider-config", "file that says how to encrypt what is stored"},
	}},
	{"Cluster", [][2]string{
		{"kubeconfig", "how to reach the cluster; inside a pod nothing needs to be said"},
		{"namespace", ""},
		{"authentication-kubeconfig", "how to ask the cluster who a caller is, if not as with --kubeconfig"},
		{"authorization-kubeconfig", "how to ask the cluster what a caller may do, if not as with --kubeconfig"},
		{"controller-user", ""},
		{"legacy-approvals", ""},
	}},
	{"Controllers", [][2]string{
		{"controllers", ""},
		{"concurrency", ""},
		{"history-limit", ""},
		{"history-age", ""},
		{"pod-batch-labels", ""},
		{"configuration-namespaces", ""},
		{"leader-elect", ""},
		{"leader-election-namespace", ""},
		{"metrics-bind-address", ""},
		{"health-probe-bind-address", ""},
	}},
	{"Development", [][2]string{
		{"standalone", ""},
		{"standalone-kubeconfig", ""},
	}},
	{"Validation", [][2]string{
		{"partition-percent-limit", ""},
		{"enforce-partition-percent-limit", ""},
		{"any-workload-kind", ""},
	}},
	{"Record", [][2]string{
		{"audit-policy-file", "what to log of requests"},
		{"audit-log-path", "where to log it; - is the standard output"},
		{"v", "verbosity of the log"},
	}},
}

// NewCommand returns the command of the server. program may run in the same process; nil for nothing.
func NewCommand(program InProcessProgram) *cobra.Command {
	o := NewOptions()
	o.InProcess = program
	logging := logsapi.NewLoggingConfiguration()
	var everything bool
	cmd := &cobra.Command{
		Use: "weir-apiserver", Long: longDescription, Args: cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if everything {
				return cmd.Help()
			}
			o.setWebhookPort(cmd.Flags().Changed)
			if o.Standalone.Enabled {
				o.Standalone.Out = cmd.OutOrStdout()
				if err := o.applyStandalone(cmd.Flags().Changed); err != nil {
					return err
				}
			}
			if err := logsapi.ValidateAndApply(logging, nil); err != nil {
				return fmt.Errorf("setting up the log: %w", err)
			}
			if err := o.Run.ComponentGlobalsRegistry.Set(); err != nil {
				return fmt.Errorf("setting the versions of components: %w", err)
			}
			o.shareKubeconfig()
			o.setCompactionInterval(cmd.Flags().Changed)
			if err := o.Validate(); err != nil {
				return err
			}
			return Run(cmd.Context(), o)
		},
	}
	all := o.flags()
	logsapi.AddFlags(logging, all)
	logs.AddFlags(all, logs.SkipLoggingConfigurationFlags())
	cmd.Flags().AddFlagSet(all)
	cmd.Flags().SetNormalizeFunc(flag.WordSepNormalizeFunc)
	cmd.Flags().BoolVar(&everything, "help-all", false, "print every flag")
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(cmd, all, everything) })
	cmd.AddCommand(newSnapshot(), newRestore(), newDoctor(), newImport(), newUninstall())
	return cmd
}

// flags returns all flags, those of Weir first.
func (o *Options) flags() *pflag.FlagSet {
	all := pflag.NewFlagSet("weir-apiserver", pflag.ContinueOnError)
	all.StringVar(&o.WebhookClientCA, "webhook-client-ca-file", o.WebhookClientCA, "file with the authorities of the client certificate that kube-apiserver shows to webhooks; without it anybody may ask")
	all.IntVar(&o.WebhookPort, webhookPortFlag, o.WebhookPort,
		"another port at which the admission webhook of workloads is served; unless it is given, the webhook is served only at --secure-port; 0 serves no webhook")
	all.BoolVar(&o.Pages, "ui", o.Pages, "serve the dashboard; its API requests use the identity of the user")
	all.StringVar(&o.ControllerUser, "controller-user", o.ControllerUser, "the user that weir-controller is")
	all.StringVar(&o.LegacyApprovals, "legacy-approvals", o.LegacyApprovals,
		"whether older clients that approve by a status write need the permission of the verb: check or allow")
	all.StringVar(&o.Store.DataDir, "data-dir", o.Store.DataDir, "directory of the embedded etcd; back it up")
	all.Var(&o.Store.Limit, "data-limit", "how large the embedded etcd may grow, between 64Mi and 8Gi")
	all.Var(&o.NamespaceLimit, "namespace-data-limit", "how many bytes of the store the objects of one namespace may use, RolloutHistories included; 0 means a quarter of --data-limit or of --objects-data-limit, whichever is less")
	all.Var(&o.ObjectsLimit, "objects-data-limit", "how many bytes of the store the objects of all namespaces may use together, since all are kept in memory; 0 means an eighth of the memory limit of the container, or no limit without one")
	all.Var(&o.ExternalLimit, "etcd-data-limit", "size limit of the etcd of --etcd-servers, for versions before 3.6, which do not report their --quota-backend-bytes; 0 means unknown: then no space is reserved for ending releases")
	all.BoolVar(&o.Store.Ephemeral, "ephemeral", o.Store.Ephemeral, "accept a --data-dir that does not survive a restart")
	all.IntVar(&o.Rules.PartitionPercentLimit, "partition-percent-limit", o.Rules.PartitionPercentLimit,
		"how much of a partitioned workload a step that routes traffic should upgrade at most, in percent")
	all.BoolVar(&o.Rules.EnforcePartitionPercentLimit, "enforce-partition-percent-limit", o.Rules.EnforcePartitionPercentLimit,
		"refuse a Rollout that is over that limit instead of warning about it")
	all.BoolVar(&o.Rules.AnyWorkloadKind, "any-workload-kind", o.Rules.AnyWorkloadKind,
		"accept Rollouts of kinds of workloads that are not known")
	all.BoolVar(&o.Standalone.Enabled, "standalone", o.Standalone.Enabled,
		"serve without a cluster, on this machine only, to one user who may do everything; keep all objects in memory, or with --data-dir on disk; for developing clients")
	all.StringVar(&o.Standalone.Kubeconfig, "standalone-kubeconfig", o.Standalone.Kubeconfig,
		"file in which --standalone writes its kubeconfig; if empty, kubeconfig in the data directory")
	if o.InProcess != nil {
		o.InProcess.AddFlags(all)
	}
	o.Views.addFlags(all)
	o.TLS.addFlags(all)
	o.Recommended.AddFlags(all)
	o.Run.AddUniversalFlags(all)
	// The default follows another flag, so none is printed.
	all.Lookup(webhookPortFlag).DefValue = "0"
	all.Lookup(compactionFlag).Usage += " The embedded etcd has 1m0s unless it is given."
	return all
}

// shareKubeconfig makes --kubeconfig the default of the two other kubeconfigs.
func (o *Options) shareKubeconfig() {
	if o.Standalone.Enabled {
		return
	}
	path := o.Recommended.CoreAPI.CoreAPIKubeconfigPath
	if o.Recommended.Authentication.RemoteKubeConfigFile == "" {
		o.Recommended.Authentication.RemoteKubeConfigFile = path
	}
	if o.Recommended.Authorization.RemoteKubeConfigFile == "" {
		o.Recommended.Authorization.RemoteKubeConfigFile = path
	}
}

const compactionFlag = "etcd-compaction-interval"

// setCompactionInterval sets a short compaction interval for the embedded etcd, because this process maps its whole
// database into memory. Watches are served from the watch cache, so only paged lists read old revisions. An
// external etcd may be shared, and keeps the default interval of kube-apiserver.
func (o *Options) setCompactionInterval(given func(flag string) bool) {
	if !o.usesExternalEtcd() && !given(compactionFlag) {
		o.Recommended.Etcd.StorageConfig.CompactionInterval = time.Minute
	}
}

// helpWidth is the width of a terminal.
const helpWidth = 100

func printHelp(cmd *cobra.Command, all *pflag.FlagSet, everything bool) {
	w := cmd.OutOrStdout()
	var commands []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			commands = append(commands, sub.Name())
		}
	}
	fmt.Fprintf(w, "%s\n\nUsage:\n  weir-apiserver [flags], or weir-apiserver %s\n", longDescription, strings.Join(commands, "|"))
	shown := map[string]bool{}
	for _, s := range sections {
		set := pflag.NewFlagSet(s.name, pflag.ContinueOnError)
		set.SortFlags = false
		for _, row := range s.flags {
			if all.Lookup(row[0]) == nil {
				continue // a flag of the controllers, which are not part of this program
			}
			f := *all.Lookup(row[0])
			if row[1] != "" {
				f.Usage = row[1]
			}
			set.AddFlag(&f)
			shown[f.Name] = true
		}
		if set.HasFlags() {
			fmt.Fprintf(w, "\n%s:\n%s", s.name, set.FlagUsagesWrapped(helpWidth))
		}
	}
	if !everything {
		fmt.Fprint(w, "\n--help-all prints the other flags, which are those of any Kubernetes API server.\n")
		return
	}
	rest := pflag.NewFlagSet("Others", pflag.ContinueOnError)
	all.VisitAll(func(f *pflag.Flag) {
		if !shown[f.Name] {
			rest.AddFlag(f)
		}
	})
	fmt.Fprintf(w, "\nOthers:\n%s", rest.FlagUsagesWrapped(helpWidth))
}

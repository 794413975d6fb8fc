// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weir-rollouts/weir/pkg/registry/rollouts/claim"
	"github.com/weir-rollouts/weir/pkg/store"
	"github.com/weir-rollouts/weir/pkg/takeover"
)

const aboutImport = `Take over from OpenKruise Rollouts: read all Rollouts, BatchReleases,
TrafficRoutings and RolloutHistories that the cluster keeps as custom resources,
and store them for weir-apiserver, which may run. Uids, times, generations,
managed fields, finalizers and status stay, so a release continues where it is.
Nothing in the cluster is changed, and the custom resources stay as they are.

Before the import: stop OpenKruise's manager; do not start a separate
weir-controller; leave the CRDs in place. docs/migrate.md has every step.

  weir-apiserver import --dry-run --kubeconfig ~/.kube/config
  kubectl -n weir-system exec deploy/weir-apiserver -- \
      /weir-apiserver import --data-dir /var/lib/weir/data`

// importFlags are the flags of the server that configure the source and the destination of the import.
var importFlags = []string{
	"kubeconfig", "data-dir", "etcd-servers", "etcd-cafile", "etcd-certfile", "etcd-keyfile", "encryption-provider-config",
}

// importer is one run of the command.
type importer struct {
	options *Options
	dryRun  bool
	manager string
	out     io.Writer
}

// newImport returns the command that imports custom resources.
func newImport() *cobra.Command {
	i := &importer{options: NewOptions(), manager: defaultManager}
	cmd := &cobra.Command{
		Use: "import", Short: "take over from the CRDs of OpenKruise Rollouts", Long: aboutImport, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			i.out = cmd.OutOrStdout()
			if err := i.run(cmd.Context()); err != nil {
				return fmt.Errorf("importing: %w", err)
			}
			return nil
		},
	}
	all := i.options.flags()
	for _, name := range importFlags {
		cmd.Flags().AddFlag(all.Lookup(name))
	}
	cmd.Flags().Lookup("kubeconfig").Usage = aboutKubeconfig
	cmd.Flags().BoolVar(&i.dryRun, "dry-run", false, "say what would be stored and what stands in the way, and store nothing; may be run at any time")
	cmd.Flags().StringVar(&i.manager, "old-manager", i.manager, "namespace and name of the Deployment of OpenKruise's manager")
	return withSubcommandHelp(cmd)
}

func (i *importer) run(ctx context.Context) error {
	config, err := clusterConfig(i.options.Recommended.CoreAPI.CoreAPIKubeconfigPath)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the cluster: %w", err)
	}
	config.QPS, config.Burst = -1, 0 // kube-apiserver limits requests by priority and fairness
	source, err := newClusterSource(config, i.options.scheme)
	if err != nil {
		return err
	}
	blocked, err := source.listBlockers(ctx, i.manager)
	if err != nil {
		return err
	}
	found, lost, err := source.findObjects(ctx)
	if err != nil {
		return err
	}
	plan := takeover.Decide(*found)
	plan.Remarks = append(plan.Remarks, lost...)
	i.printPlan(plan, blocked)
	if len(blocked) > 0 || plan.Refused() {
		return errors.New("not yet: see above; nothing was stored")
	}
	if i.dryRun {
		fmt.Fprintln(i.out, "nothing was stored, since this was a dry run")
		return nil
	}
	if err := i.storePlan(ctx, plan); err != nil {
		return err
	}
	fmt.Fprintf(i.out, "stored %d objects\n", len(plan.Objects))
	return source.printNext(ctx, i.out)
}

// printPlan prints the plan.
func (i *importer) printPlan(plan *takeover.Plan, blocked []string) {
	fmt.Fprintf(i.out, "found %d objects, %d releases in progress\n", len(plan.Objects), len(plan.Live))
	for _, l := range plan.Live {
		fmt.Fprintf(i.out, "  in progress   %s\n", l)
	}
	for _, r := range plan.Remarks {
		word := "note       "
		if r.Refused {
			word = "in the way "
		}
		fmt.Fprintf(i.out, "  %s %s\n", word, r)
	}
	for _, b := range blocked {
		fmt.Fprintf(i.out, "  in the way  %s\n", b)
	}
}

// storePlan writes the objects of the plan into the server's storage.
func (i *importer) storePlan(ctx context.Context, plan *takeover.Plan) error {
	if !i.options.usesExternalEtcd() {
		endpoint, closed, err := store.FindOrStart(ctx, i.options.Store.DataDir)
		if err != nil {
			return err
		}
		defer closed()
		i.options.Recommended.Etcd.StorageConfig.Transport.ServerList = []string{endpoint}
	}
	raw, err := i.options.openRawStorage()
	if err != nil {
		return err
	}
	defer raw.close()
	if err := raw.verifyOnlyContains(ctx, plan.Objects); err != nil {
		return err
	}
	for _, o := range plan.Objects {
		if err := raw.put(ctx, o); err != nil {
			return err
		}
	}
	for _, r := range plan.Owners {
		if err := raw.claims.Acquire(ctx, claim.NewOwner(r), r.Spec.WorkloadRef); err != nil {
			return err
		}
	}
	return nil
}

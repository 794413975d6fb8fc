// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weir-rollouts/weir/pkg/doctor"
	"github.com/weir-rollouts/weir/pkg/doctor/etcd"
	"github.com/weir-rollouts/weir/pkg/doctor/observe"
	"github.com/weir-rollouts/weir/pkg/store"
)

const aboutDoctor = `Check a Weir installation, and name the fix of each problem. Nothing is changed.
The command needs the permissions of a cluster administrator. The exit code is 1 if
a check found a problem or could not run.

  weir-apiserver doctor
  weir-apiserver doctor -o json
  weir-apiserver doctor --check=access,webhook

The check of certificates must run where cluster Services are reachable, for
example in a pod. The check of the embedded etcd must run in its pod:

  kubectl -n weir-system exec deploy/weir-apiserver -- \
      /weir-apiserver doctor --check=etcd --data-dir=/var/lib/weir/data`

// doctorCommand holds the flags of the command.
type doctorCommand struct {
	kubeconfig, output, dataDir string
	checks                      []string
	etcd                        store.Remote
}

// newDoctor returns the command that checks an installation.
func newDoctor() *cobra.Command {
	var d doctorCommand
	cmd := &cobra.Command{
		Use: "doctor", Short: "check a Weir installation, and name the fix of each problem", Long: aboutDoctor,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&d.kubeconfig, "kubeconfig", "", aboutKubeconfig)
	f.StringVarP(&d.output, "output", "o", "text", "text or json")
	f.StringSliceVar(&d.checks, "check", nil, "only these checks")
	f.StringVar(&d.dataDir, "data-dir", "", "directory of the running embedded etcd, to check it too")
	addEtcdFlags(f, &d.etcd, "an external etcd, to check it too")
	help := withSubcommandHelp(cmd).HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args)
		w := cmd.OutOrStdout()
		fmt.Fprintln(w, "\nChecks:")
		for _, c := range doctor.Checks {
			fmt.Fprintf(w, "  %-18s %s\n", c.Name, c.About)
		}
	})
	return cmd
}

func (d *doctorCommand) run(cmd *cobra.Command) error {
	if d.output != "text" && d.output != "json" {
		return fmt.Errorf("--output %q must be text or json", d.output)
	}
	checks, err := doctor.SelectChecks(d.checks)
	if err != nil {
		return err
	}
	if d.dataDir != "" {
		address, err := store.EndpointIn(d.dataDir)
		if err != nil {
			return err
		}
		d.etcd.Servers = append(d.etcd.Servers, address)
	}
	cluster, err := clusterConfig(d.kubeconfig)
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	results, err := observe.Examine(cmd.Context(), cluster, checks, etcd.Remote(d.etcd).Observe)
	if err != nil {
		return err
	}
	return d.printResults(cmd.OutOrStdout(), results)
}

// printResults prints the results, and returns an error if there are findings.
func (d *doctorCommand) printResults(w io.Writer, results []doctor.Result) error {
	if err := doctor.Write(w, d.output, results); err != nil {
		return fmt.Errorf("writing what was found: %w", err)
	}
	if !doctor.IsHealthy(results) {
		return errors.New("not all is well")
	}
	return nil
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
)

const aboutUninstall = `Give every workload back and take Weir out of the API of the cluster, in the
order in which nothing is blocked: Rollouts first, while weir-controller runs;
then BatchReleases and TrafficRoutings; then what asks Weir before a workload
changes; then the APIServices. What runs is left, and is removed as it was
installed: kubectl delete -k artifacts/small.

It refuses while a release is under way, unless it is told how that ends:
--finish lets the native controllers take the new version to the end,
--leave-paused aborts it: all pods run the stable version, and the workload
stays paused with the new template. A release that was aborted before is left
so in any case.

  weir-apiserver uninstall --kubeconfig ~/.kube/config`

// uninstalling is one run of the command.
type uninstalling struct {
	kubeconfig          string
	finish, leavePaused bool
	timeout             time.Duration
	out                 io.Writer
}

// newUninstall is the command that takes Weir out of a cluster.
func newUninstall() *cobra.Command {
	u := &uninstalling{timeout: 10 * time.Minute}
	cmd := &cobra.Command{
		Use: "uninstall", Short: "give every workload back, and take Weir out of the cluster", Long: aboutUninstall, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u.out = cmd.OutOrStdout()
			if err := u.run(cmd.Context()); err != nil {
				return fmt.Errorf("uninstalling: %w", err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&u.kubeconfig, "kubeconfig", "", "how to reach the cluster, as one who may do all this; inside a pod nothing needs to be said")
	f.BoolVar(&u.finish, "finish", false, "let the native controllers finish releases that are under way")
	f.BoolVar(&u.leavePaused, "leave-paused", false, "abort releases that are under way and leave their workloads paused")
	f.DurationVar(&u.timeout, "timeout", u.timeout, "how long to wait for workloads to be given back")
	cmd.MarkFlagsMutuallyExclusive("finish", "leave-paused")
	return plainHelp(cmd)
}

func (u *uninstalling) run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", u.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the cluster: %w", err)
	}
	i, err := newInstallation(config, u.out)
	if err != nil {
		return err
	}
	if err := u.settle(ctx, i); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, u.timeout)
	defer cancel()
	for _, resource := range []string{"rollouts", "batchreleases", "trafficroutings"} {
		if err := i.clear(limited, resource); err != nil {
			return err
		}
	}
	held, err := i.held(ctx)
	if err != nil {
		return err
	}
	if len(held) > 0 {
		return fmt.Errorf("these are still held, though no Rollout names them:\n  %s\nif they are driven by their annotations, finish that "+
			"(docs/annotation-only.md) and run this again; Weir still serves", strings.Join(held, "\n  "))
	}
	if err := i.unhook(ctx); err != nil {
		return err
	}
	fmt.Fprintln(u.out, "Weir is out of the way; what runs is removed as it was installed, such as by kubectl delete -k artifacts/small")
	return nil
}

// settle ends the releases that are under way as it is told, or refuses.
func (u *uninstalling) settle(ctx context.Context, i *installation) error {
	live, err := i.live(ctx)
	if err != nil || len(live) == 0 || u.finish {
		return err
	}
	if !u.leavePaused {
		return fmt.Errorf("releases are under way:\n  %s\nwait for them, or say how they end: --finish or --leave-paused; nothing was changed", strings.Join(names(live), "\n  "))
	}
	for _, r := range live {
		if err := i.abort(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// left tells what did not go in time.
func left(resource string, names []string) error {
	return errors.Join(context.DeadlineExceeded,
		fmt.Errorf("these %s are still there; does weir-controller run?\n  %s", resource, strings.Join(names, "\n  ")))
}

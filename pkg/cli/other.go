// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/dashboard"
	"github.com/weir-rollouts/weir/pkg/doctor"
	"github.com/weir-rollouts/weir/pkg/doctor/observe"
)

func newDoctor(a *app) *cobra.Command {
	var output string
	var names []string
	cmd := a.newCommand("doctor", "Check a Weir installation, and name the fix of each problem", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		if output != "text" && output != "json" {
			return fmt.Errorf("--output %q must be text or json", output)
		}
		checks, err := doctor.SelectChecks(names)
		if err != nil {
			return err
		}
		config, err := a.flags.ToRESTConfig()
		if err != nil {
			return err
		}
		results, err := observe.Examine(ctx, config, checks, nil)
		if err != nil {
			return err
		}
		if err := doctor.Write(a.Out, output, results); err != nil {
			return err
		}
		if !doctor.IsHealthy(results) {
			return &exitError{code: exitFailed}
		}
		return nil
	})
	cmd.Long = "Check a Weir installation (requires cluster-admin). Makes no changes.\nExits 1 if it finds a problem or cannot complete a check."
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	cmd.Flags().StringSliceVar(&names, "check", nil, "run only these checks")
	return cmd
}

func newDashboard(a *app) *cobra.Command {
	var contexts []string
	cmd := a.newCommand("dashboard", "Serve the dashboard locally, for you only", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		if len(contexts) == 0 {
			contexts = []string{*a.flags.Context}
		}
		var configs []*restclient.Config
		for _, name := range contexts {
			*a.flags.Context = name
			config, err := a.flags.ToRESTConfig()
			if err != nil {
				return err
			}
			s, err := a.connect()
			if err == nil {
				_, err = send(ctx, s.rest.Get().AbsPath("/version"))
			}
			if err != nil {
				return err
			}
			configs = append(configs, config)
		}
		return a.serveDashboards(ctx, contexts, configs)
	})
	cmd.Flags().StringSliceVar(&contexts, "contexts", nil, "kubeconfig contexts to serve, each on its own address")
	return cmd
}

// contextName returns the name of a context; empty stands for the current one.
func (a *app) contextName(name string) string {
	if name != "" {
		return name
	}
	config, err := a.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return "" // the pages then show no name
	}
	return config.CurrentContext
}

// serveDashboards serves the dashboards of several contexts until the first one fails.
func (a *app) serveDashboards(ctx context.Context, contexts []string, configs []*restclient.Config) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ready, ended := make(chan string), make(chan error, len(contexts))
	for i, name := range contexts {
		go func() {
			ended <- dashboard.ServeLocal(ctx, configs[i], dashboard.About{Version: a.version, Cluster: a.contextName(name)}, func(address string) { ready <- address })
		}()
		select {
		case address := <-ready:
			if len(contexts) > 1 {
				address = name + " " + address
			}
			fmt.Fprintln(a.Out, address)
		case err := <-ended:
			return err
		}
	}
	return <-ended
}

func newTerms(a *app) *cobra.Command {
	return a.newCommand("terms", "Explain the states of a release, the actions, and other words", cobra.NoArgs, func(context.Context, []string) error {
		s := a.screen()
		_, err := fmt.Fprint(a.Out, s.Finish(s.Terms()))
		return err
	})
}

func newVersion(a *app) *cobra.Command {
	return a.newCommand("version", "Print the version of this program", cobra.NoArgs, func(context.Context, []string) error {
		fmt.Fprintf(a.Out, "kubectl-weir %s\n", a.version)
		return nil
	})
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/dashboard"
	"github.com/weir-rollouts/weir/pkg/doctor"
	"github.com/weir-rollouts/weir/pkg/doctor/observe"
)

func newDoctor(a *app) *cobra.Command {
	var output string
	var names []string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Say what is wrong with an installation, and what fixes it", Args: cobra.NoArgs,
		Long: "Look at an installation of Weir, with the rights of a cluster administrator. Nothing is changed.\nThe exit code is 1 if anything was found, or could not be looked at.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("--output %q must be text or json", output)
			}
			checks, err := doctor.Chosen(names)
			if err != nil {
				return err
			}
			config, err := a.config()
			if err != nil {
				return err
			}
			results, err := observe.Examine(cmd.Context(), config, checks, nil)
			if err != nil {
				return err
			}
			if err := doctor.Write(a.Out, output, results); err != nil {
				return err
			}
			if !doctor.Well(results) {
				return &exit{code: exitFailed}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	cmd.Flags().StringSliceVar(&names, "check", nil, "only these checks")
	return cmd
}

func newDashboard(a *app) *cobra.Command {
	var contexts []string
	cmd := &cobra.Command{
		Use: "dashboard", Short: "Serve the dashboard on this machine, to you alone", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(contexts) == 0 {
				contexts = []string{*a.flags.Context}
			}
			return a.dashboards(cmd.Context(), contexts)
		},
	}
	cmd.Flags().StringSliceVar(&contexts, "contexts", nil, "serve these contexts of the kubeconfig, each at an address of its own")
	return cmd
}

// dashboards serves the dashboards of contexts until the first one ends.
func (a *app) dashboards(ctx context.Context, contexts []string) error {
	configs := make([]*restclient.Config, len(contexts))
	for i, name := range contexts {
		*a.flags.Context = name
		var err error
		if configs[i], err = a.config(); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ready, ended := make(chan string), make(chan error, len(contexts))
	for i, name := range contexts {
		go func() { ended <- dashboard.ServeLocal(ctx, configs[i], func(address string) { ready <- address }) }()
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

func newVersion(a *app) *cobra.Command {
	var client bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the versions of this program and of the cluster, and what it serves", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintf(a.Out, "kubectl-weir %s\n", a.version)
			if client {
				return nil
			}
			s, err := a.connect()
			if err != nil {
				return err
			}
			var kubernetes version.Info
			raw, err := sent(cmd.Context(), s.rest.Get().AbsPath("/version"))
			if err == nil {
				err = json.Unmarshal(raw, &kubernetes)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "Kubernetes %s\n", plain(kubernetes.GitVersion))
			var served metav1.APIResourceList
			raw, err = sent(cmd.Context(), s.rest.Get().AbsPath(apiPath))
			if err == nil {
				err = json.Unmarshal(raw, &served)
			}
			if err != nil {
				return explain(err, "")
			}
			fmt.Fprintf(a.Out, "%s with rollouts/%s\n", plain(served.GroupVersion), strings.Join(subresources(&served), ", "))
			return nil
		},
	}
	cmd.Flags().BoolVar(&client, "client", false, "only that of this program")
	return cmd
}

// subresources of Rollouts: the verbs and the reads of the server.
func subresources(served *metav1.APIResourceList) []string {
	var names []string
	for i := range served.APIResources {
		if sub, ok := strings.CutPrefix(served.APIResources[i].Name, "rollouts/"); ok {
			names = append(names, plain(sub))
		}
	}
	return names
}

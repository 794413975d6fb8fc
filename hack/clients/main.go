// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command clients is what others wrote for rollouts.kruise.io, unmodified, made
// callable by tests: the typed clients and informers of kruise-rollout-api and
// of an old release of OpenKruise Rollouts, the health script of Argo CD, and
// kstatus. The commands send what kubectl-kruise and KubeVela send with them.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// command is one of the table: what follows its name, and what it does.
type command struct {
	args string
	run  func(ctx context.Context, config *rest.Config, args []string) error
}

var commands = map[string]command{
	"argo":         {"SCRIPT", argo},
	"kstatus":      {"", kstatus},
	"approve":      {"NAMESPACE NAME", kruise(approve)},
	"pause":        {"NAMESPACE NAME", kruise(pause(true))},
	"resume":       {"NAMESPACE NAME", kruise(pause(false))},
	"rollback":     {"NAMESPACE NAME STEP", kruise(rollback)},
	"describe":     {"NAMESPACE NAME", kruise(describe)},
	"follow":       {"NAMESPACE NAME", kruise(follow)},
	"vela-suspend": {"NAMESPACE NAME", vela(suspend(true))},
	"vela-resume":  {"NAMESPACE NAME", vela(suspend(false))},
	"vela-approve": {"NAMESPACE NAME", vela(velaApprove)},
	"inform":       {"NAMESPACE VERSION", inform},
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		for name, c := range commands {
			fmt.Println("clients", name, c.args)
		}
		return nil
	}
	c, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("there is no command %s", args[0])
	}
	// Judges need no cluster, so a missing kubeconfig is for others to tell.
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		config = &rest.Config{}
	}
	return c.run(ctx, config, args[1:])
}

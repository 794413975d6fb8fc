// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command clients lets tests call unmodified clients of rollouts.kruise.io: the typed clients and
// informers of kruise-rollout-api and of an old release of OpenKruise Rollouts, Lua scripts of Argo
// CD, and kstatus. The commands send the same requests as kubectl-kruise and KubeVela.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// command is a command of this program. args describes its arguments.
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
		return fmt.Errorf("unknown command %s", args[0])
	}
	// argo and kstatus need no cluster, so a missing kubeconfig is not an error yet.
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		config = &rest.Config{}
	}
	return c.run(ctx, config, args[1:])
}

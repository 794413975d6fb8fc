// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command weir-controller runs the controllers, which release workloads step by step.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-rollouts/weir/internal/heap"
	"github.com/weir-rollouts/weir/pkg/controller/manager"
)

func main() {
	heap.Grow()
	o := manager.NewOptions()
	kubeconfig, verbosity := "", 0
	flags := pflag.NewFlagSet("weir-controller", pflag.ExitOnError)
	flags.StringVar(&kubeconfig, "kubeconfig", "", "file that says how to reach the API server; empty inside a cluster")
	flags.IntVarP(&verbosity, "v", "v", 0, "log verbosity: 0 for operators, 2 each plan that changes something, 4 every plan")
	flags.BoolVar(&o.Profiling, "profiling", false, "serve /debug/pprof on the metrics port, without authentication")
	o.AddFlags(flags)
	flags.Usage = func() { usage(flags) }
	_ = flags.Parse(os.Args[1:]) // exits on an error
	log := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(verbosity)))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	if err := run(ctrl.SetupSignalHandler(), kubeconfig, o); err != nil {
		fmt.Fprintln(os.Stderr, "weir-controller:", err)
		os.Exit(1)
	}
}

// run runs the controllers until the context ends.
func run(ctx context.Context, kubeconfig string, o manager.Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if !o.Enabled() {
		return errors.New("--controllers names none")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading --kubeconfig: %w", err)
	}
	return manager.Run(ctx, config, o)
}

func usage(f *pflag.FlagSet) {
	fmt.Fprintf(f.Output(), `weir-controller releases workloads step by step, as their Rollouts say.

It needs the API of rollouts.kruise.io, which weir-apiserver serves, and the
rights of the cluster role weir-controller. weir-apiserver --controllers=all
runs the same controllers in its own process.

Flags:
%s`, f.FlagUsages())
}

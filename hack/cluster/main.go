// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command cluster starts and ends a local control plane with Weir.
//
//	cluster up DIR     starts a control plane in the background, and returns when it is ready
//	cluster down DIR   ends the control plane, and keeps its logs
//
// The background process is this program with the command supervise. It holds a lock on DIR/pid. The
// cluster runs as long as the file is locked. test/cluster starts the processes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weir-rollouts/weir/test/cluster"
)

const usage = `usage: cluster up [flags] DIR
       cluster down DIR

flags of up:
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var opts cluster.Options
	podReady, weir := "", true
	var users []string
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	flags.IntVar(&opts.Nodes, "nodes", 3, "number of nodes")
	flags.StringVar(&podReady, "pod-ready", "200ms..800ms", "how long a pod takes to become ready")
	flags.BoolVar(&weir, "weir", true, "start Weir too")
	flags.StringVar(&opts.Bin, "bin", "", "directory of the Kubernetes binaries (default bin/kube of this module)")
	flags.BoolVar(&opts.Apart, "apart", false, "run the controllers in weir-controller, and not in weir-apiserver")
	flags.StringVar(&opts.WeirBin, "weir-bin", "", "directory of weir-apiserver and weir-controller (default bin of this module)")
	flags.Var((*list)(&users), "user", "a user for whom DIR/user-NAME.kubeconfig is written; may be repeated")
	flags.Var((*list)(&opts.WeirApiserverArgs), "weir-apiserver-arg", "a further argument of weir-apiserver; may be repeated")
	flags.Var((*list)(&opts.WeirControllerArgs), "weir-controller-arg", "a further argument of weir-controller; may be repeated")
	if len(args) == 0 {
		flags.Usage()
		return errors.New("the command is missing: up or down")
	}
	if err := flags.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if flags.NArg() != 1 || flags.Arg(0) == "" {
		return errors.New("name one directory, as in: make cluster-up DIR=/tmp/weir")
	}
	dir, err := filepath.Abs(flags.Arg(0))
	if err != nil {
		return fmt.Errorf("resolving %s: %w", flags.Arg(0), err)
	}
	opts.Dir, opts.Weir = dir, weir
	if opts.PodReady, err = cluster.ParseRange(podReady); err != nil {
		return err
	}
	switch args[0] {
	case "up":
		return up(dir, args[1:len(args)-1])
	case "down":
		return down(dir)
	case "supervise":
		return supervise(opts, users)
	}
	return fmt.Errorf("unknown command %s; use up or down", strconv.Quote(args[0]))
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

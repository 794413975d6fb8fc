// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command oracle answers: where does Weir answer a client otherwise than the
// CRDs of OpenKruise Rollouts do?
//
//	oracle -crds DIR [-corpus DIR] [-run REGEXP] [-v]
//
// It starts two control planes, one with Weir and one with the CRDs, sends the
// same requests to both, and prints each difference with its class. The known
// ones stand in known.go, each with a reason, and in docs/compatibility.md; any
// other makes it exit 1. It must not know why either server answers as it does.
//
// The CRDs come without the webhook that converts between versions, so an
// object is compared in the version that it was written in only: the cases of
// v1beta1 run while the CRDs store v1beta1, those of v1alpha1 while they store
// v1alpha1. Nor is there the webhook that validates: what only that refuses is a
// class of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/weir-rollouts/weir/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("oracle", flag.ContinueOnError)
	crds := flags.String("crds", "", "directory of the CRDs")
	corpus := flags.String("corpus", "", "directory of further manifests")
	only := flags.String("run", "", "regular expression of the cases to run")
	verbose := flags.Bool("v", false, "print known differences one by one")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if *crds == "" {
		return errors.New("want -crds DIR, the CRDs to compare with")
	}
	filter, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("reading -run: %w", err)
	}
	cases, err := load(*corpus)
	if err != nil {
		return err
	}
	definitions, err := readCRDs(*crds)
	if err != nil {
		return err
	}
	r := &report{out: out, verbose: *verbose, all: *only == "" && *corpus != "", seen: map[string]int{}}
	if err := compareAll(ctx, cases, filter, definitions, r); err != nil {
		return err
	}
	return r.end()
}

// compareAll runs the cases on both control planes.
func compareAll(ctx context.Context, cases []testCase, filter *regexp.Regexp, definitions []definition, r *report) (err error) {
	weir, stopWeir, err := start(ctx, cluster.Options{Nodes: 1, Weir: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopWeir()) }()
	crds, stopCRDs, err := start(ctx, cluster.Options{Nodes: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopCRDs()) }()

	for _, version := range []string{"v1beta1", "v1alpha1"} {
		if err := crds.install(ctx, definitions, version); err != nil {
			return err
		}
		for i := range cases {
			c := &cases[i]
			if c.Version != version || !filter.MatchString(c.name()) {
				continue
			}
			r.cases++
			if err := compare(ctx, c, crds, weir, r); err != nil {
				return fmt.Errorf("running %s: %w", c.name(), err)
			}
		}
	}
	return nil
}

// start starts a control plane in which nobody acts upon the objects.
func start(ctx context.Context, options cluster.Options) (*server, func() error, error) {
	c, err := cluster.Start(ctx, options)
	if err != nil {
		return nil, nil, err
	}
	s, err := newServer(c.Config())
	if err == nil && options.Weir {
		err = c.Kill(cluster.WeirController)
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.Stop())
	}
	return s, c.Stop, nil
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command demo answers: what does Weir do? It tells four releases of an
// application on a real control plane, each step as the command that a user
// would type and its real output, and it checks all that it shows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

var errInterrupted = errors.New("interrupted")

func main() {
	keep := flag.Bool("keep", false, "leave the cluster running at the end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, keep bool) (err error) {
	out := newTerminal(os.Stdout)
	began := time.Now()
	out.title("Weir: releases of a Deployment, step by step")
	out.say("First a control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and Weir. " +
		"Its nodes are simulated; all else is real. What follows a $ is typed and run as you see it.")
	p, err := open(ctx, keep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close(err)) }()
	out.note("ready after %.0f s", time.Since(began).Seconds())
	s, err := newStory(out, p)
	if err != nil {
		return err
	}
	defer s.close()
	s.tell(ctx)
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case s.err != nil:
		return s.err
	}
	out.title("The end")
	out.say(fmt.Sprintf("Everything shown was checked. It took %.0f s.", time.Since(began).Seconds()))
	if keep {
		p.explain(out)
	}
	return nil
}

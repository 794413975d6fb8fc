// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-weir is a plugin of kubectl that shows releases and acts on them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/cli"
)

// version is set by the build of a release.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	err := cli.NewCommand(streams, clock.RealClock{}, version).ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(cli.Fail(streams, err))
	}
}

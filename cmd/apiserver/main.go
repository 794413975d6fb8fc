// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command weir-apiserver serves the API group rollouts.kruise.io.
package main

import (
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"

	"github.com/weir-rollouts/weir/internal/heap"
	"github.com/weir-rollouts/weir/pkg/apiserver"
)

func main() {
	heap.Grow()
	cmd := apiserver.NewCommand()
	cmd.SetContext(genericapiserver.SetupSignalContext())
	os.Exit(cli.Run(cmd))
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command weir-apiserver serves the API group rollouts.kruise.io. With --controllers, it also runs the
// controllers, which release workloads.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/weir-rollouts/weir/internal/heap"
	"github.com/weir-rollouts/weir/pkg/apiserver"
	"github.com/weir-rollouts/weir/pkg/controller/lease"
	"github.com/weir-rollouts/weir/pkg/controller/manager"
)

func main() {
	heap.Grow()
	o := inProcessControllers{manager.NewOptions()}
	o.Controllers, o.ProbeAddress = manager.None, "0" // the API server has its own health checks
	cmd := apiserver.NewCommand(&o)
	cmd.SetContext(genericapiserver.SetupSignalContext())
	os.Exit(cli.Run(cmd))
}

// inProcessControllers are the controllers in the process of the server.
type inProcessControllers struct{ manager.Options }

// Run implements apiserver.InProcessProgram.
func (c *inProcessControllers) Run(ctx context.Context, config *rest.Config) error {
	ctrl.SetLogger(klog.Background())
	err := manager.Run(ctx, config, c.Options)
	if errors.Is(err, lease.ErrLost) {
		return fmt.Errorf("%w: %w", apiserver.ErrLeadLost, err)
	}
	return err
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && traffic

package dataplane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/weir-rollouts/weir/test/cluster"
)

const (
	gatewayName = "edge"
	// In the network namespace of the tests, every port is free.
	plainPort    = 8000
	retryingPort = 8001
	metricsPort  = 8002
)

// proxy is Traefik.
type proxy struct {
	cmd *exec.Cmd
	// ended is closed when the process has ended.
	ended chan struct{}
}

// retries is a middleware that retries a request with the next pod if it could not be delivered,
// often enough to skip all pods that end together. Traefik retries only if nothing of the request
// was written, so a request that is written to a keep-alive connection while it is closed is not
// retried.
const retries = `http:
  middlewares:
    again:
      retry: {attempts: 20}
`

// startProxy starts Traefik with its defaults, apart from the ports and the address of the control
// plane. One of its ports has the retry middleware.
func startProxy(c *cluster.Cluster) (*proxy, error) {
	program := filepath.Join(c.Bin(), "..", "traefik", "traefik")
	file := filepath.Join(c.Dir(), "middlewares.yaml")
	if err := os.WriteFile(file, []byte(retries), 0o644); err != nil {
		return nil, fmt.Errorf("writing the middleware: %w", err)
	}
	log, err := os.Create(filepath.Join(c.Dir(), "traefik.log"))
	if err != nil {
		return nil, fmt.Errorf("opening the log of the proxy: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(program,
		fmt.Sprintf("--entrypoints.plain.address=127.0.0.1:%d", plainPort),
		fmt.Sprintf("--entrypoints.retrying.address=127.0.0.1:%d", retryingPort),
		"--entrypoints.retrying.http.middlewares=again@file",
		fmt.Sprintf("--entrypoints.metrics.address=127.0.0.1:%d", metricsPort),
		"--metrics.prometheus.entrypoint=metrics",
		"--providers.file.filename="+file,
		"--providers.kubernetesgateway=true",
		"--global.checknewversion=false", "--global.sendanonymoususage=false",
		"--log.level=INFO",
	)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir(), log, log
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	cmd.SysProcAttr = childAttributes()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the proxy, see hack/traefik.sh: %w", err)
	}
	p := &proxy{cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // ProcessState has the result
		close(p.ended)
	}()
	return p, nil
}

// checkRunning returns an error if the proxy has ended, so that no wait runs into its timeout.
func (p *proxy) checkRunning() error {
	select {
	case <-p.ended:
		return fmt.Errorf("the proxy has ended: %s", p.cmd.ProcessState)
	default:
		return nil
	}
}

func (p *proxy) stop() {
	_ = p.cmd.Process.Kill() // the process has no state
	<-p.ended
}

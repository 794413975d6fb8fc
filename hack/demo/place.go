// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/weir-rollouts/weir/test/cluster"
)

// The people of the story, by their client certificates.
const (
	viewer  = "victor"
	manager = "maria"
)

// supervisor is what keeps a cluster after the demo has ended.
const supervisor = "bin/weir-cluster"

// place is the cluster that the story happens in.
type place struct {
	dir  string
	bin  string
	keep bool
	// running is nil when the supervisor has the cluster.
	running *cluster.Cluster
}

// open starts a cluster, in a directory of its own.
func open(ctx context.Context, keep bool) (*place, error) {
	dir, err := os.MkdirTemp("", "weir-demo-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	p := &place{dir: dir, keep: keep}
	if p.bin, err = filepath.Abs("bin/kube"); err != nil {
		return nil, fmt.Errorf("finding kubectl: %w", err)
	}
	if keep {
		err = p.supervise(ctx)
	} else {
		err = p.start(ctx)
	}
	if ctx.Err() != nil {
		return nil, errors.Join(errInterrupted, os.RemoveAll(dir))
	}
	if err != nil {
		return nil, fmt.Errorf("starting the cluster: %w (its logs are in %s)", err, dir)
	}
	return p, nil
}

// start starts a cluster that ends with this process, however that ends.
func (p *place) start(ctx context.Context) error {
	var err error
	if p.running, err = cluster.Start(ctx, cluster.Options{Dir: p.dir, Weir: true}); err != nil {
		return err
	}
	for _, name := range []string{viewer, manager} {
		if _, err := p.running.KubeconfigAs(name); err != nil {
			return errors.Join(err, p.running.Stop())
		}
	}
	return nil
}

// supervise has the cluster started by a process that stays.
func (p *place) supervise(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, supervisor, "up", "-user="+viewer, "-user="+manager, p.dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// kubeconfig is the file of a person, or the administrator's.
func (p *place) kubeconfig(person string) string {
	if person == "" {
		return filepath.Join(p.dir, "kubeconfig")
	}
	return filepath.Join(p.dir, "user-"+person+".kubeconfig")
}

// close ends the cluster, unless it is to be kept. After a failure the logs stay.
func (p *place) close(told error) error {
	interrupted := errors.Is(told, errInterrupted)
	switch {
	case p.keep && told == nil:
		return nil
	case p.keep && !interrupted:
		return fmt.Errorf("the cluster is still running in %s; to end it: make cluster-down DIR=%s", p.dir, p.dir)
	}
	err := p.end()
	if told != nil && !interrupted {
		return errors.Join(err, fmt.Errorf("the logs of the cluster are in %s", p.dir))
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

func (p *place) end() error {
	if p.running != nil {
		return p.running.Stop()
	}
	if out, err := exec.Command(supervisor, "down", p.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("ending the cluster: %w: %s", err, out)
	}
	return nil
}

// explain tells how to go on by hand.
func (p *place) explain(out *terminal) {
	out.say("The cluster is still running. To use it:")
	out.block(fmt.Sprintf(". %s/env\nkubectl get rollouts\nkubectl set env deployment/echoserver NODE_NAME=version5", p.dir))
	out.say("To be " + viewer + ", who may only look, or " + manager + ", who may release:")
	out.block("export KUBECONFIG=" + p.kubeconfig(viewer) + "\nexport KUBECONFIG=" + p.kubeconfig(manager))
	out.say("To see it in a browser:")
	out.block("kubectl proxy\nhttp://127.0.0.1:8001/apis/rollouts.kruise.io/v1beta1/ui/")
	out.say("To end it:")
	out.block("make cluster-down DIR=" + p.dir)
}

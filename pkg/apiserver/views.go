// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/weir-rollouts/weir/pkg/registry/rollouts/tree"
)

// ViewOptions are the settings of the computed endpoints.
type ViewOptions struct {
	// MaxOpenTrees is the maximum number of Rollouts whose trees may be watched at once.
	MaxOpenTrees int
	// Cluster replaces the client of the cluster if it is set.
	Cluster dynamic.Interface
	// Clock is the clock of the endpoints.
	Clock clock.WithDelayedExecution
}

func newViewOptions() ViewOptions {
	return ViewOptions{MaxOpenTrees: 200, Clock: clock.RealClock{}}
}

func (o *ViewOptions) addFlags(all *pflag.FlagSet) {
	all.IntVar(&o.MaxOpenTrees, "max-open-trees", o.MaxOpenTrees,
		"maximum number of Rollouts whose object trees are watched at the same time; 0 for none")
}

// newTreeConfig returns the configuration of the computed endpoints.
func (c *Config) newTreeConfig() (tree.Config, error) {
	o := c.options.Views
	v := tree.Config{Clock: o.Clock, MaxOpen: o.MaxOpenTrees}
	v.Cluster, v.Authorizer = o.Cluster, c.Generic.Authorization.Authorizer
	if o.Cluster != nil || c.Generic.ClientConfig == nil {
		return v, nil
	}
	config := restclient.CopyConfig(c.Generic.ClientConfig)
	config.QPS = -1 // kube-apiserver limits requests by priority and fairness
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return v, fmt.Errorf("creating a client for views: %w", err)
	}
	v.Cluster = client
	return v, nil
}

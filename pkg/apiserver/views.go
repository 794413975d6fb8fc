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

// ViewOptions are those of what is read about a Rollout and is not stored.
type ViewOptions struct {
	// MaxOpenTrees is how many Rollouts may be watched with all that belongs to them.
	MaxOpenTrees int
	// Cluster is used instead of the cluster's own client when it is set.
	Cluster dynamic.Interface
	// Clock is what they wait by.
	Clock clock.WithDelayedExecution
}

func newViewOptions() ViewOptions {
	return ViewOptions{MaxOpenTrees: 200, Clock: clock.RealClock{}}
}

func (o *ViewOptions) addFlags(all *pflag.FlagSet) {
	all.IntVar(&o.MaxOpenTrees, "max-open-trees", o.MaxOpenTrees,
		"how many Rollouts may be watched with all that belongs to them, by however many viewers; 0 for none")
}

// views are what the reads are made from.
func (c *Config) views() (tree.Config, error) {
	o := c.options.Views
	v := tree.Config{Clock: o.Clock, MaxOpen: o.MaxOpenTrees}
	v.Cluster, v.Authorizer = o.Cluster, c.Generic.Authorization.Authorizer
	if o.Cluster != nil || c.Generic.ClientConfig == nil {
		return v, nil
	}
	config := restclient.CopyConfig(c.Generic.ClientConfig)
	config.QPS = -1 // the cluster's own fairness is enough
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return v, fmt.Errorf("creating a client for views: %w", err)
	}
	v.Cluster = client
	return v, nil
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command argocdcache runs the cluster cache of Argo CD (github.com/argoproj/gitops-engine) on a cluster, for
// test/e2e: it shows what Argo CD knows of a cluster while Weir is down.
//
// For each line of the standard input it prints one line of JSON. The line "sync" discards the cache and fills it
// again, as Argo CD does once a day, when an administrator asks for it, and ten seconds after a failure. Any other line
// only looks at the cache.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/argoproj/gitops-engine/pkg/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2/klogr"
)

// state is what the cache knows.
type state struct {
	// Error is the error of the last synchronization. While there is one, Argo CD shows every application of the
	// cluster as Unknown.
	Error string `json:"error,omitempty"`
	// Kinds are the numbers of objects by group/Kind.
	Kinds map[string]int `json:"kinds"`
}

// excluded are the group/Kinds of resource.exclusions.
type excluded []string

// IsExcludedResource implements kube.ResourceFilter.
func (e excluded) IsExcludedResource(group, kind, _ string) bool {
	return slices.Contains(e, group+"/"+kind)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "argocdcache:", err)
		os.Exit(1)
	}
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the cluster")
	var exclude excluded
	flag.Func("exclude", "group/Kind of resource.exclusions; may be repeated", func(s string) error {
		exclude = append(exclude, s)
		return nil
	})
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	c := cache.NewClusterCache(config,
		cache.SetSettings(cache.Settings{ResourcesFilter: exclude}),
		cache.SetLogr(klogr.New()),
		// Argo CD never tries a failed synchronization again before this time has passed.
		cache.SetClusterSyncRetryTimeout(time.Nanosecond),
	)
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "sync" {
			c.Invalidate()
		}
		s := state{Kinds: map[string]int{}}
		if err := c.EnsureSynced(); err != nil {
			s.Error = err.Error()
		}
		for key := range c.FindResources("") {
			s.Kinds[key.Group+"/"+key.Kind]++
		}
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return lines.Err()
}

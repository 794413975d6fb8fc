// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/test/cluster"
)

// profile writes what CPU each process of Weir spends in the next ten seconds,
// and what it allocated until then.
func (p *place) profile(ctx context.Context, round int) error {
	if err := os.MkdirAll(p.profiles, 0o755); err != nil {
		return err
	}
	weir := p.servers[len(p.servers)-1]
	client, err := rest.HTTPClientFor(weir)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	type source struct {
		client *http.Client
		url    string
	}
	sources := map[string]source{cluster.WeirAPIServer: {client, weir.Host}}
	if p.apart {
		sources[cluster.WeirController] = source{http.DefaultClient, strings.TrimSuffix(p.controller, "/metrics")}
	}
	for name, from := range sources {
		group.Go(func() error {
			for _, page := range []string{"profile?seconds=10", "allocs"} {
				what, _, _ := strings.Cut(page, "?")
				file := filepath.Join(p.profiles, fmt.Sprintf("%s-%d.%s", name, round, what))
				if err := save(ctx, from.client, from.url+"/debug/pprof/"+page, file); err != nil {
					return fmt.Errorf("profiling %s: %w", name, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func save(ctx context.Context, client *http.Client, url, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("reading %s: %s", url, response.Status)
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

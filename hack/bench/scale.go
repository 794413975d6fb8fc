// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/test/cluster"
)

// levels are the shares of the idle Rollouts beside which releases are driven.
var levels = []float64{0.2, 0.6, 1}

// scale drives the same releases beside more and more idle Rollouts. Memory must grow by
// the same for each of them, and a release cost the same.
func (b *bench) scale(ctx context.Context, _ *table) error {
	most := b.idle
	if most < 10*crowd {
		return fmt.Errorf("-measure scale wants -idle of at least %d", 10*crowd)
	}
	b.idle = 0
	if err := b.prepare(ctx); err != nil {
		return fmt.Errorf("making the applications: %w", err)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "idle\tlive heap, MiB\tmore per Rollout, kB\tresident, MiB\treleases, s\tCPU of Weir per release, ms\town writes\trevisions")
	before := 0
	heap, err := b.liveHeap(ctx)
	if err != nil {
		return err
	}
	first := heap
	for round, share := range levels {
		now := int(share*float64(most)) / crowd * crowd
		if err := b.more(ctx, before, now); err != nil {
			return fmt.Errorf("making %d idle ones: %w", now, err)
		}
		was := heap
		if heap, err = b.liveHeap(ctx); err != nil {
			return err
		}
		r, err := b.round(ctx, round+1)
		if err != nil {
			return fmt.Errorf("releasing beside %d: %w", now, err)
		}
		n, revisions := float64(b.releases), 0
		for _, writes := range r.spent.writes {
			revisions += writes
		}
		fmt.Fprintf(w, "%d\t%.0f\t%.1f\t%d\t%.1f\t%.0f\t%.1f\t%.1f\n", now, float64(heap)/(1<<20), float64(heap-was)/1000/float64(now-before),
			r.spent.memory[cluster.WeirAPIServer]>>20, r.took.Seconds(), 1000*r.spent.cpu[cluster.WeirAPIServer].Seconds()/n,
			r.spent.requests["own writes"]/n, float64(revisions)/n)
		before = now
	}
	if heap, err = b.freshHeap(ctx); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d in a new process\t%.0f\t%.1f\n", before, float64(heap)/(1<<20), float64(heap-first)/1000/float64(before))
	return w.Flush()
}

// freshHeap is the live heap of a process that has just started: without past events and
// versions, which watch caches keep while others come fast.
func (b *bench) freshHeap(ctx context.Context) (int, error) {
	if err := b.place.own.Kill(cluster.WeirController); err != nil {
		return 0, err
	}
	if err := b.place.own.Start(cluster.WeirController); err != nil {
		return 0, err
	}
	return b.liveHeap(ctx)
}

// more makes the idle applications between two counts, and waits until they are Healthy.
func (b *bench) more(ctx context.Context, from, to int) error {
	b.idle = from
	made := b.idlers()
	b.idle = to
	all := b.idlers()
	maps.DeleteFunc(all, func(namespace string, _ int) bool { return made[namespace] > 0 })
	return b.fill(ctx, all)
}

// liveHeap is what is in use in weir-apiserver after a collection, in bytes.
func (b *bench) liveHeap(ctx context.Context) (int, error) {
	weir := b.place.servers[len(b.place.servers)-1]
	client, err := rest.HTTPClientFor(weir)
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, weir.Host+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, errors.New(response.Status)
	}
	return heapIn(response.Body)
}

// heapIn finds the bytes of live objects in a heap profile as text.
func heapIn(profile io.Reader) (int, error) {
	lines := bufio.NewScanner(profile)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if n, ok := strings.CutPrefix(lines.Text(), "# HeapAlloc = "); ok {
			return strconv.Atoi(n)
		}
	}
	return 0, errors.Join(lines.Err(), errors.New("the profile does not say what is in use"))
}

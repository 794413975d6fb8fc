// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/test/cluster"
)

// idleShares are the shares of -idle with which the releases are repeated.
var idleShares = []float64{0.2, 0.6, 1}

// measureScale repeats the same releases with more and more idle applications. Each idle
// application should need the same memory, and a release should always cost the same.
func (b *bench) measureScale(ctx context.Context, _ *latencies) error {
	idle := b.idle
	if idle < 10*idlePerNamespace {
		return fmt.Errorf("-measure scale requires -idle of at least %d", 10*idlePerNamespace)
	}
	b.idle = 0
	if err := b.createReleased(ctx); err != nil {
		return fmt.Errorf("creating the applications: %w", err)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "idle\tlive heap, MiB\tmore per Rollout, kB\tresident, MiB\treleases, s\tCPU of Weir per release, ms\town writes\trevisions")
	created := 0
	heap, err := b.liveHeap(ctx)
	if err != nil {
		return err
	}
	emptyHeap := heap
	for i, share := range idleShares {
		n := int(share*float64(idle)) / idlePerNamespace * idlePerNamespace
		if err := b.createIdle(ctx, created, n); err != nil {
			return fmt.Errorf("creating %d idle applications: %w", n, err)
		}
		heapBefore := heap
		if heap, err = b.liveHeap(ctx); err != nil {
			return err
		}
		r, err := b.round(ctx, i+1)
		if err != nil {
			return fmt.Errorf("releasing with %d idle applications: %w", n, err)
		}
		fmt.Fprintf(w, "%d\t%.0f\t%.1f\t%d\t%.1f\t%.0f\t%.1f\t%.1f\n", n, float64(heap)/(1<<20), float64(heap-heapBefore)/1000/float64(n-created),
			r.costs.memory[cluster.WeirAPIServer]>>20, r.took.Seconds(), r.cpu(cluster.WeirAPIServer),
			r.costs.requests["own writes"]/float64(b.releases), r.revisions())
		created = n
	}
	// A new process has no past events and versions, which watch caches keep for minutes.
	if err := b.plane.cluster.Kill(cluster.WeirController); err != nil {
		return err
	}
	if err := b.plane.cluster.Start(cluster.WeirController); err != nil {
		return err
	}
	if heap, err = b.liveHeap(ctx); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d in a new process\t%.0f\t%.1f\n", created, float64(heap)/(1<<20), float64(heap-emptyHeap)/1000/float64(created))
	return w.Flush()
}

// liveHeap returns the bytes that weir-apiserver uses after a garbage collection.
func (b *bench) liveHeap(ctx context.Context) (int, error) {
	client, err := rest.HTTPClientFor(b.plane.weir)
	if err != nil {
		return 0, err
	}
	profile, err := fetch(ctx, client, b.plane.weir.Host+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	defer profile.Close()
	return liveBytes(profile)
}

// liveBytes finds the bytes of live objects in a heap profile in text form.
func liveBytes(profile io.Reader) (int, error) {
	lines := bufio.NewScanner(profile)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if n, ok := strings.CutPrefix(lines.Text(), "# HeapAlloc = "); ok {
			return strconv.Atoi(n)
		}
	}
	return 0, errors.Join(lines.Err(), errors.New("the heap profile has no line HeapAlloc"))
}

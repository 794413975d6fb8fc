// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && web

package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/test/cluster"
	"github.com/weir-rollouts/weir/test/patience"
)

const (
	api         = "/apis/rollouts.kruise.io/v1beta1"
	pagesOpened = 1000 // pages opened one after another
	pagesAtOnce = 20   // pages open at the same time
)

// usage is the resource usage of open pages.
type usage struct {
	// Goroutines and Live, the bytes in use after the last collection, are of weir-apiserver.
	Goroutines, Live int
	// Upstream are the watches of pods in a namespace, which only weir-apiserver opens: one for all
	// pages of a Rollout.
	Upstream int
}

// servers are kube-apiserver and weir-apiserver, with clients of an administrator.
type servers struct {
	kube, weir       *http.Client
	kubeURL, weirURL string
}

func reach(t *testing.T, c *cluster.Cluster) *servers {
	t.Helper()
	kube, err := rest.HTTPClientFor(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	// The URL has the address, but the certificate is for the name of the Service.
	config := c.Config()
	config.Insecure, config.CAFile, config.CAData = true, "", nil
	weir, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &servers{kube, weir, c.Config().Host, "https://" + c.Address(cluster.WeirAPIServer)}
}

// TestPagesClosed checks that weir-apiserver releases all resources of pages that were closed.
func TestPagesClosed(t *testing.T) {
	c := start(t)
	environment := append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	run(t, environment, kubectl, "create", "-f", "../../artifacts/examples/echoserver.yaml", "-f", "testdata/rollout.yaml")
	s := reach(t, c)
	closed := func(u usage) bool { return u.Upstream == 0 }
	s.visits(t, 2*pagesAtOnce) // so that connections and caches exist
	before := s.settles(t, closed)
	ctx, leave := context.WithCancel(t.Context())
	for range pagesAtOnce {
		if err := s.visit(ctx, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	s.settles(t, func(u usage) bool { return u.Upstream == 1 })
	leave()
	s.visits(t, pagesOpened)
	// Each page that is not released would keep at least one goroutine.
	after := s.settles(t, func(u usage) bool { return closed(u) && u.Goroutines <= before.Goroutines+pagesOpened/100 })
	t.Logf("goroutines %d, after %d pages %d; live heap %.1f MiB, after them %.1f MiB",
		before.Goroutines, pagesOpened, after.Goroutines, float64(before.Live)/(1<<20), float64(after.Live)/(1<<20))
}

// visits opens pages and closes each once it has its data.
func (s *servers) visits(t *testing.T, pages int) {
	t.Helper()
	var all sync.WaitGroup
	failed := make(chan error, pagesAtOnce)
	for range pagesAtOnce {
		all.Go(func() {
			for range pages / pagesAtOnce {
				ctx, leave := context.WithCancel(t.Context())
				err := s.visit(ctx, leave)
				if leave(); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		t.Fatal(err)
	}
}

// visit sends the requests of a page: a watch first, and the others after its first event.
func (s *servers) visit(ctx context.Context, then func()) error {
	const name = "/namespaces/default/rollouts/rollouts-demo"
	stream, err := get(ctx, s.kube, s.kubeURL+api+"/watch"+name+"/tree")
	if err != nil {
		return err
	}
	if _, err := bufio.NewReader(stream).ReadString('\n'); err != nil {
		return fmt.Errorf("reading the first event: %w", err)
	}
	for _, path := range []string{"", "/plan", "/history"} {
		if _, err := page(ctx, s.kube, s.kubeURL+api+name+path); err != nil {
			return err
		}
	}
	then()
	return nil
}

// settles waits for a usage, and returns it.
func (s *servers) settles(t *testing.T, right func(usage) bool) usage {
	t.Helper()
	var last usage
	ctx, cancel := patience.Context(t.Context(), patience.Long)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		u, err := s.now(ctx)
		if err != nil {
			return false, err
		}
		if u != last {
			t.Logf("%+v", u)
		}
		last = u
		return right(u), nil
	})
	if err != nil {
		t.Fatalf("the last usage is %+v: %v", last, err)
	}
	return last
}

func (s *servers) now(ctx context.Context) (usage, error) {
	weir, err := page(ctx, s.weir, s.weirURL+"/metrics")
	if err != nil {
		return usage{}, err
	}
	kube, err := page(ctx, s.kube, s.kubeURL+"/metrics")
	return usage{
		Goroutines: sum(weir, `go_goroutines`),
		Live:       sum(weir, `go_gc_heap_live_bytes`),
		Upstream:   sum(kube, `apiserver_longrunning_requests\{.*resource="pods",scope="namespace",subresource="",verb="WATCH".*\}`),
	}, err
}

// sum adds the values of all series of a metric.
func sum(page, series string) int {
	total := 0.0
	for _, found := range regexp.MustCompile(`(?m)^`+series+` (\S+)$`).FindAllStringSubmatch(page, -1) {
		value, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			panic(err)
		}
		total += value
	}
	return int(total)
}

func page(ctx context.Context, client *http.Client, url string) (string, error) {
	body, err := get(ctx, client, url)
	if err != nil {
		return "", err
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	return string(content), err
}

func get(ctx context.Context, client *http.Client, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		content, err := io.ReadAll(answer.Body)
		return nil, fmt.Errorf("%s: %s %s %w", url, answer.Status, strings.TrimSpace(string(content)), err)
	}
	return answer.Body, nil
}

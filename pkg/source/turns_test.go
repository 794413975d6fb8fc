// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-rollouts/weir/pkg/metric"
)

// A namespace asks a source a hundred questions that never end. It has two places, and the
// question of another namespace is asked at once.
func TestPlacesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked := map[string]int{}
		client := piped(t, func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			namespace := r.Header.Get("X-Namespace")
			asked[namespace]++
			mu.Unlock()
			if namespace == "greedy" {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return respond(matrix("")), nil
		})
		client.headers = map[string]string{"X-Namespace": "$namespace"}
		var all sync.WaitGroup
		ask := func(namespace string, i int) (fault *Fault) {
			q := question
			q.Namespace, q.PromQL = namespace, strconv.Itoa(i)
			_, fault = client.Query(t.Context(), noon, q)
			return fault
		}
		for i := range 100 {
			all.Go(func() {
				if ask("greedy", i) == nil {
					t.Error("a silent source has answered")
				}
			})
		}
		synctest.Wait()
		for i := range 20 {
			if fault := ask("modest", i); fault != nil {
				t.Error(fault)
			}
		}
		mu.Lock()
		if asked["greedy"] != maxConcurrentPerNamespace || asked["modest"] != 20 {
			t.Errorf("asked %v, want %d of the greedy namespace until all of the other are answered", asked, maxConcurrentPerNamespace)
		}
		mu.Unlock()
		all.Wait()
	})
}

// What is kept of one namespace leaves room for that of others.
func TestKeptIsShared(t *testing.T) {
	t.Parallel()
	client := piped(t, func(*http.Request) (*http.Response, error) { return nil, errors.New("no network") })
	keep := func(namespace string, i, values int) bool {
		key := namespace + strconv.Itoa(i)
		client.cache(key, cachedSeries{series: []metric.Series{{Values: make([]metric.Value, values)}}, namespace: namespace, until: noon.Add(time.Hour)}, nil, noon)
		_, kept := client.answers[key]
		return kept
	}
	for i := range 2 * maxAnswers {
		keep("many", i, 1)
	}
	for i := range 20 {
		keep("large", i, maxValuesPerNamespace/3)
	}
	of := map[string]int{}
	for _, a := range client.answers {
		of[a.namespace]++
	}
	if of["many"] != maxAnswersPerNamespace || of["large"] != 3 || !keep("modest", 0, maxValuesPerNamespace/2) {
		t.Errorf("%v are kept, want %d and 3, and one of another namespace", of, maxAnswersPerNamespace)
	}
	fails := func(namespace, text string, now time.Time) time.Time {
		return client.recordFault(RangeQuery{Namespace: namespace, PromQL: text}, errors.New("down"), now).Since
	}
	began := fails("modest", "q", noon)
	for i := range 2 * maxAnswers {
		_ = fails("many", strconv.Itoa(i), noon) // what counts is what is left of the other
	}
	if since := fails("modest", "q", noon.Add(time.Hour)); !since.Equal(began) {
		t.Errorf("another namespace's failures make one begin at %s", since)
	}
	s := ServiceClient{}
	for i := range 2 * maxAnswers {
		s.cache(strconv.Itoa(i), cachedAnswer{namespace: "many", window: noon})
	}
	if s.cache("modest", cachedAnswer{namespace: "modest", window: noon}); len(s.answers) != maxServiceAnswersPerNamespace+1 {
		t.Errorf("%d answers of Services are kept, want %d and one of another namespace", len(s.answers), maxServiceAnswersPerNamespace)
	}
}

// Many questions of a namespace, about two Services, lead to one address: it is asked one of
// them at a time. Another namespace's does not wait.
func TestAddressIsAskedOnceAtATime(t *testing.T) {
	t.Parallel()
	const others = 30
	begun, answer := make(chan string), make(chan struct{})
	r := requestTo(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begun <- r.Host
		<-answer
	}))
	s := ServiceClient{Rules: AddressRules{Hosts: []string{"tickets.shop.svc", "other.shop.svc", "tickets.bank.svc"}}}
	ended := make(chan error, others+2)
	ask := func(namespace, host, path string) {
		r.Namespace, r.Host, r.Path = namespace, host, path
		go func(r Request) {
			_, err := s.Get(t.Context(), r)
			ended <- err
		}(r)
	}
	ask("shop", "tickets.shop.svc", "/")
	first := <-begun
	for i := range others {
		ask("shop", "other.shop.svc", "/"+strconv.Itoa(i))
	}
	ask("bank", "tickets.bank.svc", "/")
	if second := <-begun; first != "tickets.shop.svc:80" || second != "tickets.bank.svc:80" {
		t.Errorf("%s and %s are asked at once", first, second)
	}
	answer <- struct{}{}
	answer <- struct{}{}
	for range others {
		if host := <-begun; host != "other.shop.svc:80" {
			t.Errorf("%s is asked last", host)
		}
		answer <- struct{}{}
	}
	for range others + 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

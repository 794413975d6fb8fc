// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func request(text string) reconcile.Request {
	namespace, name, _ := strings.Cut(text, "/")
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// TestOrder takes what waits: "a/1" waits, "-" takes as many as can be taken, and
// "a" is done with one of that namespace.
func TestOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		limit    int
		do, want string
	}{
		"first come":            {4, "a/1 a/2 a/3 -", "a/1 a/2 a/3"},
		"one after the other":   {4, "a/1 a/2 a/3 b/1 c/1 b/2 -", "a/1 b/1 c/1 a/2 b/2 a/3"},
		"late, but not last":    {1, "a/1 a/2 a/3 - b/1 a - a -", "a/1 a/2 b/1 a/3"},
		"no more than its part": {2, "a/1 a/2 a/3 a/4 b/1 -", "a/1 b/1 a/2"},
		"when one is done":      {2, "a/1 a/2 a/3 a/4 - a -", "a/1 a/2 a/3"},
		"others go on":          {1, "a/1 a/2 - b/1 - b b/2 -", "a/1 b/1 b/2"},
		"of no namespace":       {1, "/1 /2 a/1 -", "/1 a/1"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrder(tc.limit)
			var got []string
			for step := range strings.FieldsSeq(tc.do) {
				switch {
				case step == "-":
					for o.Len() > 0 {
						got = append(got, strings.TrimPrefix(o.Pop().String(), "//"))
					}
				case strings.Contains(step, "/"):
					o.Push(request(step))
				default:
					o.done(step)
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestShare has a namespace fill a queue whose passes never end. Another one is
// worked on at once all the same, however often it comes.
func TestShare(t *testing.T) {
	const workers = 4
	options := Options(workers)
	q := options.NewQueue("test", options.RateLimiter)
	stuck, release := make(chan struct{}, 1000), make(chan struct{})
	served := make(chan reconcile.Request)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				r, shutdown := q.Get()
				if shutdown {
					return
				}
				if r.Namespace == "greedy" {
					stuck <- struct{}{}
					<-release
				} else {
					served <- r
				}
				q.Done(r)
			}
		})
	}
	for i := range 1000 {
		q.Add(request(fmt.Sprintf("greedy/%d", i)))
	}
	for range workers / 2 {
		<-stuck
	}
	for i := range 100 {
		q.Add(request(fmt.Sprintf("modest/%d", i)))
		<-served
	}
	if len(stuck) > 0 {
		t.Errorf("%d more workers are stuck than the namespace may have", len(stuck))
	}
	close(release)
	// Its own passes go on as they end, all of them.
	for q.Len() > 0 {
		q.Add(request("modest/0"))
		<-served
	}
	q.ShutDown()
	all.Wait()
}

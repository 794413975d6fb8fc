// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package queue

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

// TestOrder adds and takes requests: "a/1" adds a request, "-" takes as many requests as possible,
// and "a" ends one request of this namespace.
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
		"others continue":       {1, "a/1 a/2 - b/1 - b b/2 -", "a/1 b/1 b/2"},
		"of no namespace":       {1, "/1 /2 a/1 -", "/1 a/1"},
		"what rests is last":    {9, "a/idle1 a/1 b/idle1 a/2 b/1 -", "a/1 b/1 a/2 a/idle1 b/idle1"},
		"no more in all":        {2, "a/idle1 a/1 a/idle2 b/idle1 -", "a/1 a/idle1 b/idle1"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newNamespaceOrder(tc.limit, func(r reconcile.Request) bool { return strings.HasPrefix(r.Name, "idle") })
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

// TestRestingLast counts the reconciles after a start, when twenty of 10,000 Rollouts are under
// way. These do not wait for the others, and the others do not wait forever.
func TestRestingLast(t *testing.T) {
	const all, every = 10000, 500
	o := newNamespaceOrder(all, func(r reconcile.Request) bool { return strings.HasPrefix(r.Name, "idle") })
	for i := range all {
		name := "idle"
		if i%every == every-1 {
			name = "busy"
		}
		o.Push(request(fmt.Sprintf("%d/%s-%d", i%100, name, i)))
	}
	busy, passes := 0, 0
	for busy < all/every {
		passes++
		if strings.HasPrefix(o.Pop().Name, "busy") {
			busy++
		}
	}
	if want := all/every + 1; passes != want {
		t.Errorf("the %d that are in progress took %d passes, want %d", busy, passes, want)
	}
	idle := 0
	for i := range 10 * restingInterval {
		o.Push(request(fmt.Sprintf("a/busy-%d", i)))
		if strings.HasPrefix(o.Pop().Name, "idle") {
			idle++
		}
	}
	if idle != 10 {
		t.Errorf("%d that rest had their turn among %d others, want 10", idle, 10*restingInterval)
	}
}

// TestTouch begins a release of an object whose request waits among those of resting objects.
func TestTouch(t *testing.T) {
	begun := map[string]bool{"0": true}
	o := newNamespaceOrder(9, func(r reconcile.Request) bool { return !begun[r.Name] })
	for _, name := range []string{"a/1", "a/2", "b/3", "b/0"} {
		o.Push(request(name))
	}
	if first := o.Pop().String(); first != "b/0" {
		t.Errorf("%s goes first", first)
	}
	begun["3"] = true
	o.Touch(request("a/1")) // rests, and keeps its place
	o.Touch(request("b/3"))
	o.Touch(request("b/unknown"))
	var got []string
	for o.Len() > 0 {
		got = append(got, o.Pop().String())
	}
	if diff := cmp.Diff([]string{"b/3", "a/1", "a/2"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestKnownLater checks that isResting is called when a request has its turn. When requests are
// added, the caches may not know the objects yet.
func TestKnownLater(t *testing.T) {
	known := false
	o := newNamespaceOrder(9, func(r reconcile.Request) bool { return known && strings.HasPrefix(r.Name, "idle") })
	for _, name := range []string{"a/idle1", "a/idle2", "a/1"} {
		o.Push(request(name))
		o.Touch(request(name))
	}
	known = true
	if first := o.Pop().String(); first != "a/1" {
		t.Errorf("%s goes first", first)
	}
}

// TestPassedOver checks that a namespace keeps its turn while its resting requests are skipped. Its
// active requests do not wait for another namespace that always has requests.
func TestPassedOver(t *testing.T) {
	o := newNamespaceOrder(9, func(r reconcile.Request) bool { return strings.HasPrefix(r.Name, "idle") })
	for i := range 5000 {
		o.Push(request(fmt.Sprintf("a/idle%d", i)))
	}
	o.Push(request("a/1"))
	var got []string
	for range 3 {
		o.Push(request("b/1"))
		r := o.Pop()
		o.done(r.Namespace)
		if got = append(got, r.String()); r.Namespace == "a" {
			o.done(o.Pop().Namespace) // so that it is not pushed twice
		}
	}
	if diff := cmp.Diff([]string{"a/1", "b/1", "b/1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestShare has a namespace that fills a queue with reconciles that never end. Requests of another
// namespace are still processed immediately.
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
	// Its own passes continue as they end, all of them.
	for q.Len() > 0 {
		q.Add(request("modest/0"))
		<-served
	}
	q.ShutDown()
	all.Wait()
}

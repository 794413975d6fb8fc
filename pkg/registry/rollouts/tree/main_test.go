// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	testclock "k8s.io/utils/clock/testing"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/apiserver"
	"github.com/weir-rollouts/weir/pkg/apiserver/apiservertest"
	"github.com/weir-rollouts/weir/pkg/generated/clientset/versioned"
	"github.com/weir-rollouts/weir/test/patience"
)

// These are the users of the tests.
const (
	admin = "admin"
	// vera may see everything, and pat everything except what a test denies.
	vera = "vera"
	pat  = "pat"
)

// world is a server with a fake cluster and a fake clock.
type world struct {
	server  *apiservertest.Server
	clock   *testclock.FakeClock
	cluster *fake.FakeDynamicClient

	mu sync.Mutex
	// denied are the actions that pat may not do, such as "list pods".
	denied sets.Set[string]
	// watches are the running watches of the cluster, by resource.
	watches map[string]int
}

var the *world

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-view-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // a directory of the system's for such
	the = &world{clock: testclock.NewFakeClock(time.Now()), denied: sets.New[string](), watches: map[string]int{}}
	the.cluster = fake.NewSimpleDynamicClient(scheme.Scheme)
	the.cluster.PrependWatchReactor("*", the.watch)
	users := []user.DefaultInfo{{Name: admin, Groups: []string{user.SystemPrivilegedGroup}}, {Name: vera}, {Name: pat}}
	the.server, err = apiservertest.Start(dir, users, the.allows, func(o *apiserver.Options) {
		o.Views.Cluster, o.Views.Clock, o.Views.MaxOpenTrees = the.cluster, the.clock, 2
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := the.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func (w *world) allows(a authorizer.Attributes) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	action := a.GetVerb() + " " + a.GetResource()
	if a.GetSubresource() != "" {
		action += "/" + a.GetSubresource()
	}
	return a.GetUser().GetName() == vera || a.GetUser().GetName() == pat && !w.denied.Has(action)
}

// deny removes permissions from pat until the test ends.
func (w *world) deny(t *testing.T, actions ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.denied.Insert(actions...)
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.denied.Delete(actions...)
	})
}

// counted is a watch that is counted while it runs.
type counted struct {
	watch.Interface
	stop func()
}

func (c counted) Stop() {
	c.stop()
	c.Interface.Stop()
}

func (w *world) watch(action clienttesting.Action) (bool, watch.Interface, error) {
	var options metav1.ListOptions
	if a, ok := action.(clienttesting.WatchActionImpl); ok {
		options = a.ListOptions
	}
	inner, err := w.cluster.Tracker().Watch(action.GetResource(), action.GetNamespace(), options)
	if err != nil {
		return true, nil, err
	}
	count := func(n int) func() {
		return func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.watches[action.GetResource().Resource] += n
		}
	}
	count(1)()
	return true, counted{inner, sync.OnceFunc(count(-1))}, nil
}

// watched returns the numbers of running watches.
func (w *world) watched() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := map[string]int{}
	for resource, n := range w.watches {
		if n != 0 {
			now[resource] = n
		}
	}
	return now
}

// add creates objects in the cluster.
func (w *world) add(t *testing.T, objects ...runtime.Object) {
	t.Helper()
	for _, o := range objects {
		if err := w.cluster.Tracker().Add(untyped(t, o)); err != nil {
			t.Fatal(err)
		}
	}
}

// update changes an object of the cluster.
func (w *world) update(t *testing.T, o runtime.Object) {
	t.Helper()
	u := untyped(t, o)
	m, err := meta.Accessor(u)
	if err != nil {
		t.Fatal(err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(u.GetObjectKind().GroupVersionKind())
	if err := w.cluster.Tracker().Update(resource, u, m.GetNamespace()); err != nil {
		t.Fatal(err)
	}
}

func (w *world) remove(t *testing.T, resource schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	if err := w.cluster.Tracker().Delete(resource, namespace, name); err != nil {
		t.Fatal(err)
	}
}

// as returns a client of a user.
func (w *world) as(t *testing.T, name string) versioned.Interface {
	t.Helper()
	c, err := versioned.NewForConfig(w.server.As(name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stream watches a tree as a user.
func (w *world) stream(t *testing.T, name, namespace, rollout string) (watch.Interface, error) {
	t.Helper()
	client, ok := w.as(t, name).RolloutsV1beta1().RESTClient().(*restclient.RESTClient)
	if !ok {
		t.Fatal("there is no client")
	}
	return client.Get().AbsPath("/apis/rollouts.kruise.io/v1beta1/watch").Namespace(namespace).
		Resource("rollouts").Name(rollout).SubResource("tree").MaxRetries(0).Watch(t.Context())
}

// next returns the next event of a stream, while the clock advances.
func (w *world) next(t *testing.T, from watch.Interface) watch.Event {
	t.Helper()
	var event watch.Event
	w.eventually(t, "an event", func() bool {
		select {
		case e, ok := <-from.ResultChan():
			if !ok {
				e.Type = "closed"
			}
			event = e
			return true
		default:
			return false
		}
	})
	return event
}

// tree returns the tree of the next event.
func (w *world) tree(t *testing.T, from watch.Interface, kind watch.EventType) *v1beta1.RolloutTree {
	t.Helper()
	e := w.next(t, from)
	tree, ok := e.Object.(*v1beta1.RolloutTree)
	if !ok || e.Type != kind {
		t.Fatalf("got the event %s %v, want %s", e.Type, e.Object, kind)
	}
	return tree
}

// eventually waits for a condition while the clock advances.
func (w *world) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := patience.Context(t.Context(), patience.Long)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(context.Context) (bool, error) {
		if is() {
			return true, nil
		}
		w.clock.Step(500 * time.Millisecond)
		return false, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/controller/cluster"
)

// index is a namespace with an index that many Rollouts write concurrently.
type index struct {
	cluster.Server
	t      *testing.T
	stored client.Client
	writes int
	// first is called before the first write is sent, and answer may refuse any.
	first  func()
	answer func(*corev1.ConfigMap) error
}

func newIndex(t *testing.T) *index {
	i := &index{t: t, first: func() {}, answer: func(*corev1.ConfigMap) error { return nil }}
	s := newServer(t)
	i.stored = s.WithWatch
	send := func(o client.Object, on func() error) error {
		if i.writes++; i.writes == 1 {
			i.first()
		}
		if c, ok := o.(*corev1.ConfigMap); ok {
			if err := i.answer(c); err != nil {
				return err
			}
		}
		return on()
	}
	c := interceptor.NewClient(s.WithWatch, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return send(o, func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return send(o, func() error { return c.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return send(o, func() error { return c.Delete(ctx, o, opts...) })
		},
	})
	i.Server = cluster.Server{Reader: cluster.Reader{Client: c, Live: s.WithWatch, Indexes: s.WithWatch}, IndexWriter: &cluster.IndexWriter{}}
	return i
}

// exist creates Rollouts with the names.
func (i *index) exist(names ...string) {
	i.t.Helper()
	for _, name := range names {
		r := &v1beta1.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: name}}
		if err := i.stored.Create(i.t.Context(), r); err != nil && !apierrors.IsAlreadyExists(err) {
			i.t.Fatal(err)
		}
	}
}

// read returns the entry that a pass over a Rollout reads.
func (i *index) read(rollout string) *cluster.IndexEntry {
	i.t.Helper()
	i.exist(rollout)
	ref := &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: rollout}
	e, err := i.IndexEntry(i.t.Context(), types.NamespacedName{Namespace: request.Namespace, Name: rollout}, ref)
	if err != nil {
		i.t.Fatal(err)
	}
	return e
}

// has returns the stored entries.
func (i *index) has() map[string]string {
	i.t.Helper()
	var c corev1.ConfigMap
	err := i.Get(i.t.Context(), types.NamespacedName{Namespace: request.Namespace, Name: rollouts.IndexName}, &c)
	if client.IgnoreNotFound(err) != nil {
		i.t.Fatal(err)
	}
	return c.Data
}

// part is the write of one pass.
type part func(context.Context) error

// together runs all parts while the first one writes, and returns the error of each.
func (i *index) together(parts ...part) []error {
	answers := make([]error, len(parts))
	synctest.Test(i.t, func(t *testing.T) {
		writes := make(chan struct{})
		i.writes = 0
		i.first = func() {
			close(writes)
			synctest.Wait()
		}
		var all sync.WaitGroup
		for n, do := range parts {
			all.Go(func() {
				if n > 0 {
					<-writes
				}
				answers[n] = do(t.Context())
			})
		}
		all.Wait()
	})
	return answers
}

func (i *index) enter(e *cluster.IndexEntry) part {
	return func(ctx context.Context) error { return i.AddToIndex(ctx, e) }
}

func (i *index) strike(e *cluster.IndexEntry) part {
	return func(ctx context.Context) error { return i.RemoveFromIndex(ctx, e) }
}

func listing(names ...string) map[string]string {
	entries := map[string]string{}
	for _, n := range names {
		entries["Deployment.apps_"+n] = n
	}
	return entries
}

// TestConcurrentEdits adds and removes many Rollouts concurrently. All edits that arrive during the first write are in one
// second write.
func TestConcurrentEdits(t *testing.T) {
	i := newIndex(t)
	var names []string
	var enter, strike []part
	for n := range 40 {
		names = append(names, fmt.Sprint("app-", n))
		enter = append(enter, i.enter(i.read(names[n])))
	}
	for n, err := range i.together(enter...) {
		if err != nil {
			t.Errorf("%s: %v", names[n], err)
		}
	}
	if diff := cmp.Diff(listing(names...), i.has()); diff != "" || i.writes != 2 {
		t.Errorf("%d writes, want 2 (-want +stored):\n%s", i.writes, diff)
	}
	for _, name := range names {
		strike = append(strike, i.strike(i.read(name)))
	}
	for n, err := range i.together(strike...) {
		if err != nil {
			t.Errorf("%s: %v", names[n], err)
		}
	}
	if left := i.has(); len(left) > 0 || i.writes != 2 {
		t.Errorf("%d writes, want 2; left: %v", i.writes, left)
	}
}

// TestConcurrentEditsWithConflict lets somebody change the entry of one Rollout. Only the edit of this Rollout fails with a
// conflict.
func TestConcurrentEditsWithConflict(t *testing.T) {
	i := newIndex(t)
	seen := i.read("web")
	if err := i.AddToIndex(t.Context(), i.read("web")); err != nil {
		t.Fatal(err)
	}
	answers := i.together(i.enter(i.read("api")), i.strike(i.read("web")), i.enter(seen))
	var moved int
	for _, err := range answers {
		if cluster.IsConflict(err) {
			moved++
		} else if err != nil {
			t.Error(err)
		}
	}
	if moved != 1 || !cluster.IsConflict(answers[2]) {
		t.Errorf("answers %v, want a conflict of the last", answers)
	}
	if diff := cmp.Diff(listing("api"), i.has()); diff != "" {
		t.Errorf("(-want +stored):\n%s", diff)
	}
}

// refusesBad refuses an index that has the entry bad.
func refusesBad(c *corev1.ConfigMap) error {
	if _, there := c.Data["Deployment.apps_bad"]; there {
		return apierrors.NewForbidden(corev1.Resource("configmaps"), c.Name, errors.New("not this one"))
	}
	return nil
}

// TestConcurrentEditsWithInvalid lets the server refuse one entry. The other edits succeed.
func TestConcurrentEditsWithInvalid(t *testing.T) {
	i := newIndex(t)
	i.answer = refusesBad
	answers := map[string]error{}
	names := []string{"one", "bad", "two", "three"}
	var parts []part
	for _, name := range names {
		parts = append(parts, i.enter(i.read(name)))
	}
	for n, err := range i.together(parts...) {
		answers[names[n]] = err
	}
	if err := answers["bad"]; !apierrors.IsForbidden(err) {
		t.Errorf("it was answered %v", err)
	}
	delete(answers, "bad")
	if diff := cmp.Diff(listing("one", "two", "three"), i.has()); diff != "" || errors.Join(answers["one"], answers["two"], answers["three"]) != nil {
		t.Errorf("%v (-want +stored):\n%s", answers, diff)
	}
}

// A removal with an outdated entry fails with a conflict even if the server refuses another entry of the same write.
// Otherwise the Rollout would restore its workload while the policies still hold it.
func TestTogetherButMovedAndRefused(t *testing.T) {
	i := newIndex(t)
	i.answer = refusesBad
	seen := i.read("web")
	if err := i.AddToIndex(t.Context(), i.read("web")); err != nil {
		t.Fatal(err)
	}
	answers := i.together(i.enter(i.read("api")), i.strike(seen), i.enter(i.read("bad")))
	if answers[0] != nil || !cluster.IsConflict(answers[1]) || !apierrors.IsForbidden(answers[2]) {
		t.Errorf("answers %v, want a conflict of the second and a refusal of the third", answers)
	}
	if diff := cmp.Diff(listing("api", "web"), i.has()); diff != "" {
		t.Errorf("(-want +stored):\n%s", diff)
	}
}

// TestStaleNamesAreRemovedTogether lets somebody fill an index with names of no Rollout. One write removes all of them: the
// write that adds a Rollout, or the write of the pass that finds that a Rollout does not exist.
func TestStaleNamesAreRemovedTogether(t *testing.T) {
	for name, tc := range map[string]struct {
		index  corev1.ConfigMap
		read   string
		do     func(i *index, e *cluster.IndexEntry) error
		want   map[string]string
		writes int
	}{
		"by one that enters": {filled(), "web", func(i *index, e *cluster.IndexEntry) error { return i.AddToIndex(i.t.Context(), e) }, listing("api", "web"), 1},
		"by one that leaves": {filled(), "nobody-7", func(i *index, e *cluster.IndexEntry) error {
			if gone, err := i.IsRolloutGone(i.t.Context(), e); err != nil || !gone {
				i.t.Errorf("gone %v, %v", gone, err)
			}
			return i.RemoveFromIndex(i.t.Context(), e)
		}, listing("api"), 1},
		"where it cannot be changed": {immutable(filled()), "web", func(i *index, e *cluster.IndexEntry) error { return i.AddToIndex(i.t.Context(), e) }, listing("api", "web"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIndex(t)
			i.exist("api", "web")
			if err := i.stored.Create(t.Context(), &tc.index); err != nil {
				t.Fatal(err)
			}
			ref := &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: tc.read}
			e, err := i.IndexEntry(t.Context(), types.NamespacedName{Namespace: request.Namespace, Name: tc.read}, ref)
			if err != nil || e.UnlistedReason != "" {
				t.Fatal(err, e.UnlistedReason)
			}
			if err := tc.do(i, e); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, i.has()); diff != "" || i.writes != tc.writes {
				t.Errorf("%d writes, want %d (-want +stored):\n%s", i.writes, tc.writes, diff)
			}
		})
	}
}

// filled returns a full index in which one entry belongs to a Rollout.
func filled() corev1.ConfigMap {
	c := corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: rollouts.IndexName, Labels: map[string]string{rollouts.LabelIndex: "true"}},
		Data:       listing("api"), BinaryData: map[string][]byte{"x": make([]byte, 1000)},
	}
	for n := range 25_000 {
		c.Data[fmt.Sprint("Deployment.apps_foreign-", n, strings.Repeat("x", 20))] = fmt.Sprint("nobody-", n)
	}
	return c
}

func immutable(c corev1.ConfigMap) corev1.ConfigMap {
	c.Immutable = new(true)
	return c
}

// TestIndexIsFull has more workloads than fit into an index. The next Rollout reports that, and does not wait for an entry.
func TestIndexIsFull(t *testing.T) {
	i := newIndex(t)
	c := corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: rollouts.IndexName, Labels: map[string]string{rollouts.LabelIndex: "true"}},
		Data:       map[string]string{},
	}
	for n := range 5000 {
		c.Data[fmt.Sprint("Deployment.apps_", strings.Repeat("x", 200), n)] = "api"
	}
	i.exist("api")
	if err := i.stored.Create(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	if e := i.read("web"); !e.IsCorrect || e.IsListed || !strings.Contains(e.UnlistedReason, "has no room") {
		t.Errorf("right %v, listed %v, unlisted %q", e.IsCorrect, e.IsListed, e.UnlistedReason)
	}
	if e := i.read(strings.Repeat("long", 60)); !e.IsCorrect || !strings.Contains(e.UnlistedReason, "has no room") {
		t.Errorf("of a name that has a shorter key: right %v, unlisted %q", e.IsCorrect, e.UnlistedReason)
	}
	if e := i.read(strings.Repeat("long", 63) + "s"); !e.IsCorrect || !strings.Contains(e.UnlistedReason, "exceed the length of a key") || !strings.Contains(e.UnlistedReason, "give the workload a shorter name") {
		t.Errorf("of the longest name: right %v, unlisted %q", e.IsCorrect, e.UnlistedReason)
	}
}

// In a namespace with thousands of Rollouts, a change of the index enqueues only the Rollouts whose entries it changes.
func TestAboutIndexes(t *testing.T) {
	t.Parallel()
	i := newIndex(t)
	i.exist("one", "two", "three")
	about := cluster.EnqueueIndexed(i.Server)
	index := func(label string, data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: rollouts.IndexName, Labels: map[string]string{rollouts.LabelIndex: label}},
			Data:       data,
		}
	}
	before := index("true", map[string]string{"a": "one", "b": "two", "c": "three"})
	update := func(label string, data map[string]string) func(queue) {
		return func(q queue) {
			about.Update(t.Context(), event.TypedUpdateEvent[*corev1.ConfigMap]{ObjectOld: before, ObjectNew: index(label, data)}, q)
		}
	}
	for name, tc := range map[string]struct {
		what func(queue)
		want []string
	}{
		"comes":               {func(q queue) { about.Create(t.Context(), event.TypedCreateEvent[*corev1.ConfigMap]{Object: before}, q) }, []string{"one", "three", "two", "web"}},
		"goes":                {func(q queue) { about.Delete(t.Context(), event.TypedDeleteEvent[*corev1.ConfigMap]{Object: before}, q) }, []string{"one", "three", "two", "web"}},
		"is the same":         {update("true", before.Data), nil},
		"has strangers":       {update("true", map[string]string{"a": "one", "b": "two", "c": "three", "d": "six", "e": "five", "f": "seven"}), []string{"five"}},
		"has an entry more":   {update("true", map[string]string{"a": "one", "b": "two", "c": "three", "d": "four"}), []string{"four"}},
		"has an entry less":   {update("true", map[string]string{"a": "one", "b": "two"}), []string{"three"}},
		"names another":       {update("true", map[string]string{"a": "one", "b": "else", "c": "three"}), []string{"else", "two"}},
		"has an empty name":   {update("true", map[string]string{"a": "one", "b": "", "c": "three"}), []string{"two"}},
		"is an index no more": {update("no", before.Data), []string{"one", "three", "two", "web"}},
		"loses all":           {update("true", nil), []string{"one", "three", "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			tc.what(q)
			var woken []string
			for range q.Len() {
				r, _ := q.Get()
				woken = append(woken, r.Name)
			}
			slices.Sort(woken)
			if diff := cmp.Diff(tc.want, woken); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// shelf is a source with stored Rollouts and a watch.
type shelf struct {
	items []rollouts.Rollout
	watch *watch.FakeWatcher
	// asked are the options of the list requests.
	asked []string
}

func (s *shelf) List(ctx context.Context, o *metainternalversion.ListOptions) (runtime.Object, error) {
	s.asked = append(s.asked, "namespace "+genericapirequest.NamespaceValue(ctx)+" version "+o.ResourceVersion)
	return &rollouts.RolloutList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: s.items}, nil
}

func (s *shelf) Watch(context.Context, *metainternalversion.ListOptions) (watch.Interface, error) {
	return s.watch, nil
}

// wrapped is an object in the form that several watchers share.
type wrapped struct{ *rollouts.Rollout }

func (w wrapped) GetObject() runtime.Object { return w.DeepCopy() }

func (w wrapped) CacheEncode(runtime.Identifier, func(runtime.Object, io.Writer) error, io.Writer) error {
	return nil
}

func naming(name, kind, target, version string) rollouts.Rollout {
	r := rollouts.Rollout{Spec: rollouts.RolloutSpec{WorkloadRef: &rollouts.ObjectRef{APIVersion: "apps/v1", Kind: kind, Name: target}}}
	r.Namespace, r.Name, r.ResourceVersion = "ns", name, version
	r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	return r
}

var web = rollouts.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}

func namesOf(t *testing.T, found []*rollouts.Rollout, err error) []string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range found {
		names = append(names, r.Name)
	}
	return names
}

// The index finds the Rollouts of a workload among others of the namespace, the oldest first. Live reads
// have no resource version.
func TestStored(t *testing.T) {
	t.Parallel()
	s := &shelf{items: []rollouts.Rollout{
		naming("second", "Deployment", "web", "1"), naming("other", "Deployment", "api", "1"),
		naming("first", "Deployment", "web", "1"), naming("kind", "StatefulSet", "web", "1"),
	}}
	index, err := NewIndex(s)
	if err != nil {
		t.Fatal(err)
	}
	found, err := index.ListLive(t.Context(), "ns", web)
	if diff := cmp.Diff([]string{"first", "second"}, namesOf(t, found, err)); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"namespace ns version "}, s.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// The index finds watched objects, wrapped or not.
func TestNaming(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{watch: watch.NewFake()}
		index, err := NewIndex(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := index.ListCached("ns", web); err == nil {
			t.Error("it answers before anything is read")
		}
		ctx, stop := context.WithCancel(t.Context())
		go index.Run(ctx)
		stored, plain, many := naming("before", "Deployment", "web", "1"), naming("plain", "Deployment", "web", "3"), naming("wrapped", "Deployment", "web", "4")
		end := &rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
		s.watch.Add(&stored)
		s.watch.Action(watch.Bookmark, end)
		s.watch.Add(&plain)
		s.watch.Add(wrapped{&many})
		synctest.Wait()
		found, err := index.ListCached("ns", web)
		if diff := cmp.Diff([]string{"before", "plain", "wrapped"}, namesOf(t, found, err)); diff != "" {
			t.Errorf("found (-want +got):\n%s", diff)
		}
		for _, r := range found {
			if r.ManagedFields != nil {
				t.Errorf("%s keeps its managedFields", r.Name)
			}
		}
		stop()
		synctest.Wait()
	})
}

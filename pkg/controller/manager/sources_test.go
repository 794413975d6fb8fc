// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	weir "github.com/weir-rollouts/weir/pkg/apis/weir/v1alpha1"
)

// The controllers may start before weir-apiserver serves MetricSources. The watch begins when it does.
func TestSourcesServedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := weir.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		informers := &informertest.FakeInformers{Scheme: scheme, Error: errors.New("stale GroupVersion discovery")}
		var changed []string
		watch := sourceWatch{informers, func(name string) { changed = append(changed, name) }}
		started := make(chan error)
		go func() { started <- watch.Start(t.Context()) }()
		synctest.Wait()
		informers.Error = nil
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		informer, err := informers.FakeInformerFor(t.Context(), &weir.MetricSource{})
		if err != nil {
			t.Fatal(err)
		}
		informer.Add(&weir.MetricSource{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
		if !slices.Equal(changed, []string{"default"}) {
			t.Errorf("after a MetricSource was created, the checks of %q are measured again; want those of default", changed)
		}
	})
}

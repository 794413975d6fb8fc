// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/traffic"
)

var meshKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Mesh"}

// lookups is a mapper that counts lookups.
type lookups struct {
	meta.RESTMapper
	asked atomic.Int32
}

func (l *lookups) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	l.asked.Add(1)
	return l.RESTMapper.RESTMapping(gk, versions...)
}

// listing is a cluster that serves meshes. It may forbid their list.
func listing(forbidden bool) (s Reader, mapper *lookups, listed *int) {
	kinds := meta.NewDefaultRESTMapper([]schema.GroupVersion{meshKind.GroupVersion()})
	kinds.Add(meshKind, meta.RESTScopeNamespace)
	mapper, listed = &lookups{RESTMapper: kinds}, new(int)
	c := fake.NewClientBuilder().WithRESTMapper(mapper).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			*listed++
			if forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Group: "example.com", Resource: "meshes"}, "", nil)
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	return Reader{Client: c, Live: c}, mapper, listed
}

// TestOptionalKindIsListedOnce checks that a kind with many references is listed once, and watched once if the list is
// permitted.
func TestOptionalKindIsListedOnce(t *testing.T) {
	for name, forbidden := range map[string]bool{"allowed": false, "forbidden": true} {
		t.Run(name, func(t *testing.T) {
			s, _, listed := listing(forbidden)
			var f OptionalKinds
			watched := 0
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					_, absence, err := f.FindAndWatch(t.Context(), s, meshKind.GroupKind(), func(client.Object) error { watched++; return nil })
					if err != nil || absence.Forbidden != forbidden {
						t.Errorf("%+v, %v", absence, err)
					}
				})
			}
			all.Wait()
			if *listed != 1 || forbidden == (watched == 1) {
				t.Errorf("listed %d times, watched %d times", *listed, watched)
			}
		})
	}
}

// TestRoutersWithoutProvider checks that routers without a provider and a script are not read. A router whose script was
// removed is still read.
func TestRoutersWithoutProvider(t *testing.T) {
	s, mapper, listed := listing(false)
	n := &Network{Reader: s, Watch: func(client.Object) error { return nil }}
	read := func(script string) {
		t.Helper()
		routers := traffic.RoutersFor(rollouts.TrafficRoutingRef{CustomNetworkRefs: []rollouts.ObjectRef{{APIVersion: "example.com/v1", Kind: "Mesh", Name: "web"}}}, "spec")
		routers[0].Script = script
		if err := n.readRouter(t.Context(), "shop", &routers[0]); err != nil || routers[0].Unavailable != "" {
			t.Fatalf("%q, %v", routers[0].Unavailable, err)
		}
	}
	read("")
	if asked := mapper.asked.Load(); asked > 0 || *listed > 0 {
		t.Errorf("without a script it was looked up %d times and listed %d times", asked, *listed)
	}
	read("return obj.data")
	before := mapper.asked.Load()
	read("")
	if after := mapper.asked.Load() - before; before == 0 || after == 0 {
		t.Errorf("looked up %d times with a script, %d times after it has gone", before, after)
	}
}

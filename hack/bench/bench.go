// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The namespaces of the applications: released and unheld ones, and one that is
// released before all.
const (
	busy  = "weir-bench"
	bare  = "weir-bench-floor"
	first = "weir-bench-first"
)

// crowd is how many idle applications share a namespace. kube-controller-manager
// looks at all ReplicaSets of a namespace for each of its Deployments.
const crowd = 100

// quiet is the namespace of an idle application.
func quiet(i int) string { return fmt.Sprintf("weir-bench-idle-%d", i/crowd) }

// idlers are how many each of these namespaces has.
func (b *bench) idlers() map[string]int {
	sizes := map[string]int{}
	for i := range b.idle {
		sizes[quiet(i)]++
	}
	return sizes
}

// atOnce is how many objects are made at the same time.
const atOnce = 32

// limit is how long a round may take.
const limit = 30 * time.Minute

type bench struct {
	options
	system  system
	client  client.Client
	http    *http.Client
	counter *counter
}

func newBench(o options, s system) (*bench, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, system: s}
	if b.client, err = client.New(o.place.config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if b.http, err = rest.HTTPClientFor(o.place.config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	b.counter, err = newCounter(o.place)
	return b, err
}

// floor changes as many Deployments that nobody holds, and tells what that takes.
func (b *bench) floor(ctx context.Context) (*result, error) {
	s := unheld{}
	if err := b.each(ctx, bare, b.releases, func(name string) []client.Object { return s.application(bare, name, b.replicas) }); err != nil {
		return nil, err
	}
	if err := b.complete(ctx, bare); err != nil {
		return nil, err
	}
	r, err := b.drive(ctx, s, bare, version(1))
	if err != nil {
		return nil, err
	}
	return r, b.forget(ctx, bare)
}

// prepare makes the applications, and waits until they are in service. Before that
// it has one release begin: to apply a policy, kube-apiserver reads the schema of
// Deployments, once, but for each of many requests that come before it has.
func (b *bench) prepare(ctx context.Context) error {
	if err := b.await(ctx, first, 1); err != nil {
		return err
	}
	if err := b.beside(ctx); err != nil {
		return err
	}
	if err := b.each(ctx, busy, b.releases, func(name string) []client.Object { return b.system.application(busy, name, b.replicas) }); err != nil {
		return err
	}
	return b.inService(ctx, busy)
}

// beside makes the idle ones.
func (b *bench) beside(ctx context.Context) error { return b.fill(ctx, b.idlers()) }

// fill makes namespaces with so many idle applications each.
func (b *bench) fill(ctx context.Context, all map[string]int) error {
	for namespace, size := range all {
		if err := b.each(ctx, namespace, size, func(name string) []client.Object { return b.system.application(namespace, name, 0) }); err != nil {
			return err
		}
	}
	return b.inService(ctx, slices.Collect(maps.Keys(all))...)
}

func (b *bench) inService(ctx context.Context, namespaces ...string) error {
	for _, namespace := range namespaces {
		if err := until(ctx, func(ctx context.Context) (bool, error) { return b.healthy(ctx, namespace) }); err != nil {
			return fmt.Errorf("waiting until all in %s is Healthy: %w", namespace, err)
		}
		// What was written of a Deployment until then is still to be seen by others.
		if err := b.complete(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

// each makes a namespace with so many applications.
func (b *bench) each(ctx context.Context, namespace string, n int, objects func(name string) []client.Object) error {
	if err := b.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error {
			for _, o := range objects(appName(i)) {
				if err := b.client.Create(ctx, o); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func until(ctx context.Context, is func(context.Context) (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, limit, true, is)
}

// complete waits until all Deployments have their pods.
func (b *bench) complete(ctx context.Context, namespace string) error {
	return until(ctx, func(ctx context.Context) (bool, error) {
		var list appsv1.DeploymentList
		if err := b.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		for i := range list.Items {
			if !whole(&list.Items[i]) {
				return false, nil
			}
		}
		return true, nil
	})
}

func whole(d *appsv1.Deployment) bool {
	n, s := *d.Spec.Replicas, d.Status
	return s.ObservedGeneration >= d.Generation && s.Replicas == n && s.UpdatedReplicas == n && s.AvailableReplicas == n
}

func (b *bench) healthy(ctx context.Context, namespace string) (bool, error) {
	n, all, err := b.count(ctx, namespace, func(s state) bool { return s.healthy })
	return n == all, err
}

// count counts releases that are so, of all.
func (b *bench) count(ctx context.Context, namespace string, is func(state) bool) (n, all int, err error) {
	_, list := b.system.release()
	if err := b.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return 0, 0, err
	}
	err = apimeta.EachListItem(list, func(item runtime.Object) error {
		o, ok := item.(client.Object)
		if ok && is(b.system.state(o)) {
			n++
		}
		all++
		return nil
	})
	return n, all, err
}

// patch changes the version of an application.
func (b *bench) patch(ctx context.Context, s system, namespace, name, version string) error {
	body, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": version}})
	if err != nil {
		return err
	}
	o := s.workload()
	o.SetNamespace(namespace)
	o.SetName(name)
	return b.client.Patch(ctx, o, client.RawPatch(types.JSONPatchType, body))
}

// clean removes what was made in a cluster that stays.
func (b *bench) clean(ctx context.Context) error {
	if b.place.own != nil {
		return nil
	}
	errs := []error{b.forget(ctx, busy), b.forget(ctx, bare), b.forget(ctx, first)}
	for namespace := range b.idlers() {
		errs = append(errs, b.forget(ctx, namespace))
	}
	return errors.Join(errs...)
}

// forget waits until all is gone, so that what is measured next has nothing of it.
func (b *bench) forget(ctx context.Context, namespace string) error {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := b.client.Delete(ctx, n); err != nil {
		return client.IgnoreNotFound(err)
	}
	return until(ctx, func(ctx context.Context) (bool, error) {
		err := b.client.Get(ctx, client.ObjectKeyFromObject(n), n)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

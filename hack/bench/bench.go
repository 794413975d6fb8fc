// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

// The namespaces of the applications.
const (
	releasedNamespace = "weir-bench"
	unheldNamespace   = "weir-bench-unheld"
	// warmUpNamespace has one application that is released before all others.
	warmUpNamespace = "weir-bench-warm-up"
	// waitingNamespace has releases that wait at step 1 while requests about them are sent.
	waitingNamespace = "weir-bench-waiting"
)

// idlePerNamespace limits the idle applications of a namespace, because
// kube-controller-manager reads all ReplicaSets of a namespace for each Deployment in it.
const idlePerNamespace = 100

func idleNamespace(i int) string { return fmt.Sprintf("weir-bench-idle-%d", i/idlePerNamespace) }

// createdAtOnce is the number of objects that are created at the same time.
const createdAtOnce = 32

// roundLimit only ends a round that hangs.
const roundLimit = 30 * time.Minute

// bench drives a system on a control plane.
type bench struct {
	options
	system  system
	plane   *plane
	client  client.Client
	http    *http.Client
	counter *counter
}

func newBench(o options, s system, p *plane) (*bench, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, v1beta1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	b := &bench{options: o, system: s, plane: p}
	var err error
	if b.client, err = client.New(p.config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	if b.http, err = rest.HTTPClientFor(p.config); err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	b.counter, err = newCounter(p)
	return b, err
}

// createReleased creates the applications that are released, and the idle ones, and waits until
// all are healthy. One release starts before: kube-apiserver reads the schema of Deployments when
// it first applies an admission policy, and again for each request that arrives meanwhile.
func (b *bench) createReleased(ctx context.Context) error {
	if err := b.createWaiting(ctx, warmUpNamespace, 1); err != nil {
		return err
	}
	if err := b.createIdle(ctx, 0, b.idle); err != nil {
		return err
	}
	if err := b.createApplications(ctx, b.system, releasedNamespace, b.releases, b.replicas); err != nil {
		return err
	}
	return b.waitHealthy(ctx, releasedNamespace)
}

// createIdle creates the idle applications from one number to another, and waits until they are
// healthy. The first number must be a multiple of idlePerNamespace.
func (b *bench) createIdle(ctx context.Context, from, to int) error {
	var namespaces []string
	for i := from; i < to; i += idlePerNamespace {
		namespace := idleNamespace(i)
		if err := b.createApplications(ctx, b.system, namespace, min(idlePerNamespace, to-i), 0); err != nil {
			return err
		}
		namespaces = append(namespaces, namespace)
	}
	return b.waitHealthy(ctx, namespaces...)
}

// createWaiting creates applications of one pod, and starts releases of them that wait at step 1.
func (b *bench) createWaiting(ctx context.Context, namespace string, n int) error {
	if err := b.createApplications(ctx, b.system, namespace, n, 1); err != nil {
		return err
	}
	if err := b.waitHealthy(ctx, namespace); err != nil {
		return err
	}
	for i := range n {
		if err := b.changeImage(ctx, b.system, namespace, appName(i), versionImage(1)); err != nil {
			return err
		}
	}
	return waitUntil(ctx, func(ctx context.Context) (bool, error) {
		waiting, _, err := b.countReleases(ctx, namespace, func(s state) bool { return s.waits })
		return waiting == n, err
	})
}

// createApplications creates a namespace with n applications.
func (b *bench) createApplications(ctx context.Context, s system, namespace string, n, replicas int) error {
	if err := b.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(createdAtOnce)
	for i := range n {
		g.Go(func() error {
			for _, o := range s.application(namespace, appName(i), replicas) {
				if err := b.client.Create(ctx, o); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func (b *bench) deleteNamespace(ctx context.Context, namespace string) error {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := b.client.Delete(ctx, n); err != nil {
		return err
	}
	return waitUntil(ctx, func(ctx context.Context) (bool, error) {
		err := b.client.Get(ctx, client.ObjectKeyFromObject(n), n)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// waitHealthy waits until all releases of the namespaces are healthy and all Deployments complete.
func (b *bench) waitHealthy(ctx context.Context, namespaces ...string) error {
	for _, namespace := range namespaces {
		if err := waitUntil(ctx, func(ctx context.Context) (bool, error) {
			n, all, err := b.countReleases(ctx, namespace, func(s state) bool { return s.healthy })
			return n == all, err
		}); err != nil {
			return fmt.Errorf("waiting until all releases in %s are healthy: %w", namespace, err)
		}
		if err := b.waitComplete(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

// waitComplete waits until all Deployments of a namespace have their pods.
func (b *bench) waitComplete(ctx context.Context, namespace string) error {
	return waitUntil(ctx, func(ctx context.Context) (bool, error) {
		var list appsv1.DeploymentList
		if err := b.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		for i := range list.Items {
			if !isComplete(&list.Items[i]) {
				return false, nil
			}
		}
		return true, nil
	})
}

// isComplete reports whether all pods of a Deployment run its template and are available.
func isComplete(d *appsv1.Deployment) bool {
	n, s := *d.Spec.Replicas, d.Status
	return s.ObservedGeneration >= d.Generation && s.Replicas == n && s.UpdatedReplicas == n && s.AvailableReplicas == n
}

// countReleases counts the releases of a namespace, and those among them whose state matches.
func (b *bench) countReleases(ctx context.Context, namespace string, matches func(state) bool) (n, all int, err error) {
	_, list := b.system.newRelease()
	if err := b.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return 0, 0, err
	}
	err = apimeta.EachListItem(list, func(item runtime.Object) error {
		o, ok := item.(client.Object)
		if ok && matches(b.system.state(o)) {
			n++
		}
		all++
		return nil
	})
	return n, all, err
}

// changeImage changes the template of an application.
func (b *bench) changeImage(ctx context.Context, s system, namespace, name, image string) error {
	body, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}})
	if err != nil {
		return err
	}
	o := s.newWorkload()
	o.SetNamespace(namespace)
	o.SetName(name)
	return b.client.Patch(ctx, o, client.RawPatch(types.JSONPatchType, body))
}

// sendVerb sends a verb to a Rollout.
func (b *bench) sendVerb(ctx context.Context, namespace, name, verb, body string) (code int, answer []byte, err error) {
	return b.send(ctx, http.MethodPost, body, http.Header{"Content-Type": {"application/json"}}, namespace, name, verb)
}

// send sends a request about a Rollout or a subresource of it.
func (b *bench) send(ctx context.Context, method, body string, header http.Header, namespace, name, subresource string) (code int, answer []byte, err error) {
	address, err := url.JoinPath(b.plane.config.Host, "apis", v1beta1.SchemeGroupVersion.String(), "namespaces", namespace, "rollouts", name, subresource)
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header = header
	response, err := b.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

func waitUntil(ctx context.Context, holds func(context.Context) (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, roundLimit, true, holds)
}

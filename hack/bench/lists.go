// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// copies are custom resources with the content of the Rollouts.
var copies = schema.GroupVersionResource{Group: "bench.weir.test", Version: "v1beta1", Resource: "copies"}

// listRepeats is how often each list is read.
const listRepeats = 20

// listQueries are the lists that clients read.
var listQueries = map[string]string{
	"all, as an informer starts": "?resourceVersion=0",
	"all, as of now":             "?",
	"the first 500":              "?limit=500",
}

// endpoint is a server of the objects.
type endpoint struct {
	name string
	// url is the URL of the group and version.
	url  string
	http *http.Client
	gvr  schema.GroupVersionResource
}

// measureLists compares lists and watches of Rollouts with those of custom resources of the same
// content.
func (b *bench) measureLists(ctx context.Context, l *latencies) error {
	if err := b.createIdle(ctx, 0, b.releases); err != nil {
		return err
	}
	if err := b.copyRollouts(ctx); err != nil {
		return fmt.Errorf("copying Rollouts to custom resources: %w", err)
	}
	rollouts := v1beta1.SchemeGroupVersion.WithResource("rollouts")
	var endpoints []endpoint
	for _, e := range []struct {
		name   string
		config *rest.Config
		gvr    schema.GroupVersionResource
	}{
		{"custom resources", b.plane.config, copies},
		{"Rollouts", b.plane.config, rollouts},
		{"Rollouts, directly from weir-apiserver", b.plane.weir, rollouts},
	} {
		c, err := rest.HTTPClientFor(e.config)
		if err != nil {
			return err
		}
		url := fmt.Sprintf("%s/apis/%s/%s", e.config.Host, e.gvr.Group, e.gvr.Version)
		endpoints = append(endpoints, endpoint{e.name, url, c, e.gvr})
	}
	for range listRepeats {
		for _, e := range endpoints {
			for name, query := range listQueries {
				began := time.Now()
				if _, err := e.read(ctx, query); err != nil {
					return err
				}
				l.add(fmt.Sprintf("list of %s, %s", name, e.name), time.Since(began))
			}
		}
	}
	for _, e := range endpoints {
		if err := b.measureWatches(ctx, l, e); err != nil {
			return fmt.Errorf("watching %s: %w", e.name, err)
		}
	}
	return nil
}

// copyRollouts creates a custom resource of each Rollout, with its status. The schema of the
// custom resources validates, defaults and prunes nothing, so that it costs as little as possible.
func (b *bench) copyRollouts(ctx context.Context) error {
	if err := b.client.Create(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: copies.GroupResource().String()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: copies.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: copies.Resource, Kind: "Copy"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: copies.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
			}},
		},
	}); err != nil {
		return err
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind("RolloutList"))
	if err := b.client.List(ctx, &list); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(createdAtOnce)
	for i := range list.Items {
		o := &list.Items[i]
		o.SetGroupVersionKind(copies.GroupVersion().WithKind("Copy"))
		o.SetResourceVersion("")
		o.SetUID("")
		o.SetFinalizers(nil)
		o.SetManagedFields(nil)
		g.Go(func() error {
			return waitUntil(ctx, func(ctx context.Context) (bool, error) {
				err := b.client.Create(ctx, o.DeepCopy())
				if apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err) {
					return false, nil // kube-apiserver serves a new definition only after a moment
				}
				return err == nil, err
			})
		})
	}
	return g.Wait()
}

func (e endpoint) read(ctx context.Context, query string) ([]byte, error) {
	body, err := e.open(ctx, query)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

func (e endpoint) open(ctx context.Context, query string) (io.ReadCloser, error) {
	return fetch(ctx, e.http, e.url+"/"+e.gvr.Resource+query)
}

// sentAnnotation has the time at which an update was sent, in nanoseconds.
const sentAnnotation = "bench.weir.test/sent"

// measureWatches updates objects that -watchers clients watch, and measures when each client sees
// the update.
func (b *bench) measureWatches(ctx context.Context, l *latencies, e endpoint) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	first, err := e.read(ctx, "?limit=1")
	if err != nil {
		return err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(first, &list); err != nil {
		return err
	}
	row := fmt.Sprintf("%d watchers, update → seen, %s", b.watchers, e.name)
	watchers, watching := errgroup.WithContext(ctx)
	for range b.watchers {
		body, err := e.open(watching, "?watch=true&resourceVersion="+list.ResourceVersion)
		if err != nil {
			return err
		}
		watchers.Go(func() error {
			defer body.Close()
			return readUpdates(body, b.requestCount(), func(sent time.Time) { l.add(row, time.Since(sent)) })
		})
	}
	before, _, err := b.counter.processCosts()
	if err != nil {
		return err
	}
	if err := b.sendRequests(ctx, l, b.sendUpdates(e)); err != nil {
		return err
	}
	if err := watchers.Wait(); err != nil {
		return err
	}
	after, _, err := b.counter.processCosts()
	if err != nil {
		return err
	}
	fmt.Printf("# %s: %d updates seen by %d watchers; CPU of kube-apiserver %.1f s, of weir-apiserver %.1f s\n", e.name, b.requestCount(), b.watchers,
		(after[cluster.KubeAPIServer] - before[cluster.KubeAPIServer]).Seconds(), (after[cluster.WeirAPIServer] - before[cluster.WeirAPIServer]).Seconds())
	return nil
}

// readUpdates reads n updates of a watch, and calls seen with the time at which each was sent. It
// does not decode the objects, because decoding would take longer than the servers do.
func readUpdates(body io.Reader, n int, seen func(sent time.Time)) error {
	lines := bufio.NewReaderSize(body, 64*1024)
	for range n {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		_, rest, _ := bytes.Cut(line, []byte(`"`+sentAnnotation+`":"`))
		value, _, _ := bytes.Cut(rest, []byte(`"`))
		sent, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil {
			return fmt.Errorf("the watch returned something other than an update: %s", line)
		}
		seen(time.Unix(0, sent))
	}
	return nil
}

// sendUpdates returns a function that updates one object after the other.
func (b *bench) sendUpdates(e endpoint) func(context.Context, int) (string, error) {
	return func(ctx context.Context, i int) (string, error) {
		body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, sentAnnotation, time.Now().UnixNano())
		i %= b.releases
		url := fmt.Sprintf("%s/namespaces/%s/%s/%s", e.url, idleNamespace(i), e.gvr.Resource, appName(i%idlePerNamespace))
		request, err := http.NewRequestWithContext(ctx, http.MethodPatch, url, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		request.Header.Set("Content-Type", "application/merge-patch+json")
		response, err := e.http.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		if response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", request.URL, response.Status)
		}
		return fmt.Sprintf("%d watchers, update, %s", b.watchers, e.name), err
	}
}

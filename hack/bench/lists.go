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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/test/cluster"
)

// copies is where the same objects are stored as custom resources.
var copies = schema.GroupVersionResource{Group: "bench.weir.test", Version: "v1beta1", Resource: "copies"}

// repeats is how often each list is asked for.
const repeats = 20

// side is one server of the objects.
type side struct {
	name string
	// url is that of their group and version.
	url  string
	http *http.Client
	gvr  schema.GroupVersionResource
}

// reads are the lists that clients ask for, by their queries.
var reads = map[string]string{
	"all, as an informer begins": "?resourceVersion=0",
	"all, as of now":             "?",
	"the first 500":              "?limit=500",
}

// lists compares lists and watches of Rollouts with those of the same objects as
// custom resources.
func (b *bench) lists(ctx context.Context, t *table) error {
	b.idle = b.releases
	if err := b.beside(ctx); err != nil {
		return err
	}
	if err := b.copy(ctx); err != nil {
		return fmt.Errorf("copying Rollouts to custom resources: %w", err)
	}
	sides, err := b.sides()
	if err != nil {
		return err
	}
	for range repeats {
		for _, s := range sides {
			for what, query := range reads {
				began := time.Now()
				if _, err := s.get(ctx, query); err != nil {
					return err
				}
				t.add(fmt.Sprintf("list of %s, %s", what, s.name), time.Since(began))
			}
		}
	}
	for _, s := range sides {
		if err := b.fanOut(ctx, t, s); err != nil {
			return fmt.Errorf("watching %s: %w", s.name, err)
		}
	}
	return nil
}

func (b *bench) sides() ([]side, error) {
	rollouts := v1beta1.SchemeGroupVersion.WithResource("rollouts")
	direct := b.place.servers[len(b.place.servers)-1]
	made := []side{
		{name: "custom resources", gvr: copies},
		{name: "Rollouts", gvr: rollouts},
		{name: "Rollouts, of weir-apiserver itself", gvr: rollouts},
	}
	for i, config := range []*rest.Config{b.place.config, b.place.config, direct} {
		s := &made[i]
		s.url = fmt.Sprintf("%s/apis/%s/%s", config.Host, s.gvr.Group, s.gvr.Version)
		var err error
		if s.http, err = rest.HTTPClientFor(config); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// copy makes a custom resource of each Rollout, with its status. The schema is
// the cheapest there is: nothing in them is checked, defaulted or pruned.
func (b *bench) copy(ctx context.Context) error {
	if err := b.client.Create(ctx, definition()); err != nil {
		return err
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(v1beta1.SchemeGroupVersion.WithKind("RolloutList"))
	if err := b.client.List(ctx, &list); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range list.Items {
		o := &list.Items[i]
		o.SetGroupVersionKind(copies.GroupVersion().WithKind("Copy"))
		o.SetResourceVersion("")
		o.SetUID("")
		o.SetFinalizers(nil)
		o.SetManagedFields(nil)
		g.Go(func() error {
			return until(ctx, func(ctx context.Context) (bool, error) {
				err := b.client.Create(ctx, o.DeepCopy())
				// The definition is not served at once.
				return err == nil, client.IgnoreNotFound(err)
			})
		})
	}
	return g.Wait()
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
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
	}
}

func (s side) get(ctx context.Context, query string) ([]byte, error) {
	body, err := s.open(ctx, query)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

func (s side) open(ctx context.Context, query string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/"+s.gvr.Resource+query, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", runtime.ContentTypeJSON)
	response, err := s.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		said, err := io.ReadAll(io.LimitReader(response.Body, 1024))
		return nil, fmt.Errorf("%s: %s: %s (%w)", request.URL, response.Status, bytes.TrimSpace(said), err)
	}
	return response.Body, nil
}

// sent is the annotation that says when an update was sent, in nanoseconds.
const sent = "bench.weir.test/sent"

// fanOut updates objects that many clients watch, and times when each sees it.
func (b *bench) fanOut(ctx context.Context, t *table, s side) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	updates := int(b.requests * b.lasting.Seconds())
	watchers, watching := errgroup.WithContext(ctx)
	row := fmt.Sprintf("watch by %d, update → seen, %s", b.watchers, s.name)
	first, err := s.get(ctx, "?limit=1")
	if err != nil {
		return err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(first, &list); err != nil {
		return err
	}
	for range b.watchers {
		body, err := s.open(watching, "?watch=true&resourceVersion="+list.ResourceVersion)
		if err != nil {
			return err
		}
		watchers.Go(func() error {
			defer body.Close()
			return see(body, updates, func(at time.Time) { t.add(row, time.Since(at)) })
		})
	}
	before, _, err := b.counter.used()
	if err != nil {
		return err
	}
	if err := b.load(ctx, t, b.touch(s)); err != nil {
		return err
	}
	if err := watchers.Wait(); err != nil {
		return err
	}
	after, _, err := b.counter.used()
	if err != nil {
		return err
	}
	var used strings.Builder
	for _, name := range []string{cluster.KubeAPIServer, cluster.WeirAPIServer} {
		fmt.Fprintf(&used, ", %s %.1f s", name, (after[name] - before[name]).Seconds())
	}
	fmt.Printf("# %s: CPU of %d updates seen by %d%s\n", s.name, updates, b.watchers, used.String())
	return nil
}

// see reads so many updates, and looks for when each was sent. Objects are not
// decoded, so that the time is not that of the driver.
func see(body io.Reader, updates int, tell func(time.Time)) error {
	lines := bufio.NewReaderSize(body, 64*1024)
	for range updates {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		_, rest, _ := bytes.Cut(line, []byte(`"`+sent+`":"`))
		said, _, _ := bytes.Cut(rest, []byte(`"`))
		at, err := strconv.ParseInt(string(said), 10, 64)
		if err != nil {
			return fmt.Errorf("what was seen is no update: %s", line)
		}
		tell(time.Unix(0, at))
	}
	return nil
}

// touch is the update number i, of one object after the other.
func (b *bench) touch(s side) func(context.Context, int) (string, error) {
	return func(ctx context.Context, i int) (string, error) {
		body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, sent, time.Now().UnixNano())
		i %= b.releases
		url := fmt.Sprintf("%s/namespaces/%s/%s/%s", s.url, quiet(i), s.gvr.Resource, appName(i%crowd))
		request, err := http.NewRequestWithContext(ctx, http.MethodPatch, url, strings.NewReader(body))
		if err != nil {
			return "", err
		}
		request.Header.Set("Content-Type", "application/merge-patch+json")
		response, err := s.http.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		if response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", request.URL, response.Status)
		}
		return "watched by many, update, " + s.name, err
	}
}

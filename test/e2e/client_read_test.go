// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// TestClientDiscovery checks that both API versions are found by the old and by aggregated
// discovery, v1beta1 first, with their status subresource and without a scale subresource.
func TestClientDiscovery(t *testing.T) {
	t.Parallel()
	group := decode[metav1.APIGroup](testEnv.admin.send(t, request{method: "GET", path: "/apis/" + newVersion.Group}).mustAnswer(200))
	if got := group.PreferredVersion.Version; got != "v1beta1" || len(group.Versions) != 2 {
		t.Errorf("discovery prefers %s of %v", got, group.Versions)
	}
	all := decode[apidiscoveryv2.APIGroupDiscoveryList](testEnv.admin.send(t, request{
		method: "GET", path: "/apis", accept: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
	}).mustAnswer(200))
	at := slices.IndexFunc(all.Items, func(g apidiscoveryv2.APIGroupDiscovery) bool { return g.Name == newVersion.Group })
	if at < 0 {
		t.Fatal("aggregated discovery does not contain the group")
	}
	var versions []string
	for _, v := range all.Items[at].Versions {
		versions = append(versions, v.Version+" "+string(v.Freshness))
		i := slices.IndexFunc(v.Resources, func(r apidiscoveryv2.APIResourceDiscovery) bool { return r.Resource == "rollouts" })
		if i < 0 {
			t.Fatalf("%s has no rollouts", v.Version)
		}
		r := v.Resources[i]
		var subresources []string
		for _, s := range r.Subresources {
			subresources = append(subresources, s.Subresource)
		}
		if !slices.Contains(subresources, "status") || slices.Contains(subresources, "scale") || len(r.ShortNames)+len(r.Categories) > 0 || r.SingularResource != "rollout" {
			t.Errorf("%s: subresources %v, short names %v, categories %v, singular %s", v.Version, subresources, r.ShortNames, r.Categories, r.SingularResource)
		}
	}
	if diff := cmp.Diff([]string{"v1beta1 Current", "v1alpha1 Current"}, versions); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// TestClientOpenAPI checks that the cluster's OpenAPI documents contain the models with the names
// that the CRDs have.
func TestClientOpenAPI(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	// kube-apiserver fetches the schemas some time after a server has restarted.
	var definitions map[string]json.RawMessage
	a.eventually("the merged document has the models", func(context.Context) error {
		definitions = decode[struct {
			Definitions map[string]json.RawMessage `json:"definitions"`
		}](testEnv.admin.send(t, request{method: "GET", path: "/openapi/v2"}).mustAnswer(200)).Definitions
		if definitions["io.kruise.rollouts.v1beta1.Rollout"] == nil || definitions["io.kruise.rollouts.v1alpha1.Rollout"] == nil {
			return errors.New("a model is missing")
		}
		return nil
	})
	for name := range definitions {
		if strings.ContainsAny(name, "/~") {
			t.Errorf("model %s breaks clients", name)
		}
	}
	for _, version := range []schema.GroupVersion{newVersion, oldVersion} {
		v3 := testEnv.admin.send(t, request{method: "GET", path: "/openapi/v3/apis/" + version.String()}).mustAnswer(200)
		v3.mustAnswer(200, `"x-kubernetes-group-version-kind"`, `"x-kubernetes-list-map-keys"`, "io.kruise.rollouts."+version.Version+".Rollout")
	}
}

// TestClientTables checks that tables have the columns of OpenKruise in both versions, also in a
// watch.
func TestClientTables(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	a.newRolloutWithoutWorkload("web")
	a.awaitObserved("web")
	const accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	for _, version := range []schema.GroupVersion{newVersion, oldVersion} {
		for _, path := range []string{a.listPath(version), a.rolloutPath(version, "web"), a.listPath(version) + "?watch=1&timeoutSeconds=1"} {
			answer := testEnv.admin.send(t, request{method: "GET", path: path, accept: accept}).mustAnswer(200)
			if strings.Contains(path, "watch") {
				event := decode[metav1.WatchEvent](reply{t: t, body: []byte(strings.SplitN(string(answer.body), "\n", 2)[0])})
				answer.body = event.Object.Raw
			}
			table := decode[metav1.Table](answer)
			var columns []string
			for _, c := range table.ColumnDefinitions {
				columns = append(columns, fmt.Sprintf("%s %s %d", c.Name, c.Type, c.Priority))
			}
			if diff := cmp.Diff([]string{
				"Name string 0", "STATUS string 0", "CANARY_STEP integer 0", "CANARY_STATE string 0", "MESSAGE string 0", "AGE date 0",
				"STATE string 0", "VERSIONS string 0",
				"WAITING-FOR string 1", "SINCE date 1", "STEP string 1", "NEW string 1", "TRAFFIC string 1", "BY string 1",
			}, columns); diff != "" {
				t.Errorf("%s: columns (-want +got):\n%s", path, diff)
			}
			if len(table.Rows) != 1 || table.Rows[0].Cells[1] != "Initial" || table.Rows[0].Cells[4] != "Workload Not Found" {
				t.Errorf("%s: rows %v", path, table.Rows)
			}
		}
	}
	kubectl := func(args ...string) result { return testEnv.admin.kubectl(a, args...) }
	if out := kubectl("get", "rollouts").mustSucceed("NAME", "STATUS", "AGE"); strings.Contains(out, "WAITING-FOR") {
		t.Errorf("the plain table is wide:\n%s", out)
	}
	kubectl("get", "rollouts", "-o", "wide").mustSucceed("WAITING-FOR", "SINCE", "Deployment web, which does not exist")
	kubectl("get", "rollouts.v1alpha1.rollouts.kruise.io", "-o", "wide").mustSucceed("WAITING-FOR", "SINCE", "Deployment web, which does not exist")
}

// TestClientMetadata lists and watches as metadata clients do, such as the garbage collector and
// the namespace controller.
func TestClientMetadata(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	a.newRolloutWithoutWorkload("web")
	c, err := metadata.NewForConfig(testEnv.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []schema.GroupVersion{newVersion, oldVersion} {
		of := c.Resource(version.WithResource("rollouts")).Namespace(a.namespace)
		list, err := of.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 || list.Items[0].Name != "web" || list.Items[0].UID == "" {
			t.Errorf("%s: %v", version, list.Items)
		}
		w, err := of.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		testEnv.admin.kubectl(a, "label", "rollout", "web", "seen-by="+version.Version, "--overwrite").mustSucceed()
		for e := range w.ResultChan() {
			o, ok := e.Object.(*metav1.PartialObjectMetadata)
			if !ok {
				t.Fatalf("%s: got %v", version, e)
			}
			if o.Labels["seen-by"] == version.Version {
				break
			}
		}
		w.Stop()
	}
}

// TestClientChunks checks that the pages of a list are consistent, even if objects change between
// the pages.
func TestClientChunks(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	for i := range 5 {
		a.newRolloutWithoutWorkload(fmt.Sprintf("web-%d", i))
	}
	c, err := dynamic.NewForConfig(testEnv.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	of := c.Resource(rollouts).Namespace(a.namespace)
	var got []string
	options := metav1.ListOptions{Limit: 2}
	var version string
	for page := range 3 {
		list, err := of.List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			got = append(got, list.Items[i].GetName())
		}
		if left := list.GetRemainingItemCount(); page == 0 && (left == nil || *left != 3) {
			t.Errorf("after the first page %v are said to be left, want 3", left)
		}
		if version != "" && list.GetResourceVersion() != version {
			t.Errorf("page %d is of version %s, the first was of %s", page, list.GetResourceVersion(), version)
		}
		version, options.Continue = list.GetResourceVersion(), list.GetContinue()
		if page == 0 {
			a.newRolloutWithoutWorkload("web-00")
			a.newRolloutWithoutWorkload("web-9")
		}
	}
	if diff := cmp.Diff([]string{"web-0", "web-1", "web-2", "web-3", "web-4"}, got); diff != "" || options.Continue != "" {
		t.Errorf("chunks continue with %q; names (-want +got):\n%s", options.Continue, diff)
	}
	testEnv.admin.kubectl(a, "get", "rollouts", "--chunk-size=2", "-o", "name").mustSucceed("web-00", "web-4", "web-9")
	testEnv.admin.send(t, request{method: "GET", path: a.listPath(newVersion) + "?limit=2&continue=nonsense"}).mustAnswer(400, "continue")
}

// TestClientResourceVersions reads with each resourceVersion that a client can request.
func TestClientResourceVersions(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	a.newRolloutWithoutWorkload("web")
	a.awaitObserved("web")
	before := a.mustGetRollout("web").ResourceVersion
	testEnv.admin.kubectl(a, "label", "rollout", "web", "now=yes").mustSucceed()
	after := a.mustGetRollout("web").ResourceVersion
	list := func(query string) reply {
		return testEnv.admin.send(t, request{method: "GET", path: a.listPath(newVersion) + "?" + query})
	}
	for query, labelled := range map[string]bool{
		"resourceVersion=" + before + "&resourceVersionMatch=Exact":       false,
		"resourceVersion=" + after + "&resourceVersionMatch=Exact":        true,
		"resourceVersion=" + after + "&resourceVersionMatch=NotOlderThan": true,
		"resourceVersion=" + after:                                        true,
		"":                                                                true,
	} {
		if got := strings.Contains(string(list(query).mustAnswer(200).body), `"now":"yes"`); got != labelled {
			t.Errorf("with %q the label was seen %t, want %t", query, got, labelled)
		}
	}
	list("resourceVersion=0").mustAnswer(200)
	list("resourceVersionMatch=Exact").mustAnswer(http.StatusUnprocessableEntity, "resourceVersionMatch")
	list("resourceVersion="+after+"0000&resourceVersionMatch=NotOlderThan").mustAnswer(http.StatusGatewayTimeout, "Too large resource version")
	list("resourceVersion=1&resourceVersionMatch=Sometimes").mustAnswer(http.StatusUnprocessableEntity, "resourceVersionMatch")
}

// TestClientWatchLists starts watches with sendInitialEvents, and expects the bookmark at the end
// of the list and later bookmarks.
func TestClientWatchLists(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	a.newRolloutWithoutWorkload("web")
	a.awaitObserved("web")
	c, err := dynamic.NewForConfig(testEnv.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	yes, seconds := true, int64(4)
	for _, version := range []schema.GroupVersion{newVersion, oldVersion} {
		w, err := c.Resource(version.WithResource("rollouts")).Namespace(a.namespace).Watch(t.Context(), metav1.ListOptions{
			SendInitialEvents: &yes, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for e := range w.ResultChan() {
			o, err := asObject(e)
			if err != nil {
				t.Fatal(err)
			}
			line := string(e.Type)
			if e.Type != watch.Bookmark {
				line += " " + o.GetName()
			}
			if o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
				line += " that ends the list"
			}
			if o.GetResourceVersion() == "" {
				line += " without a version"
			}
			got = append(got, line)
		}
		// The last bookmark is sent shortly before the watch ends.
		if diff := cmp.Diff([]string{"ADDED web", "BOOKMARK that ends the list", "BOOKMARK"}, slices.Compact(got)); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", version, diff)
		}
	}
}

func asObject(e watch.Event) (metav1.Object, error) {
	o, ok := e.Object.(metav1.Object)
	if !ok || e.Type == watch.Error {
		return nil, fmt.Errorf("the watch sent %s %v", e.Type, e.Object)
	}
	return o, nil
}

// TestClientFieldSelector watches one object by its name.
func TestClientFieldSelector(t *testing.T) {
	t.Parallel()
	a := newNamespace(t)
	a.newRolloutWithoutWorkload("web")
	a.newRolloutWithoutWorkload("web-too")
	for _, version := range []schema.GroupVersion{newVersion, oldVersion} {
		path := a.listPath(version) + "?fieldSelector=metadata.name%3Dweb"
		list := decode[metav1.PartialObjectMetadataList](testEnv.admin.send(t, request{method: "GET", path: path}).mustAnswer(200))
		if len(list.Items) != 1 || list.Items[0].Name != "web" {
			t.Errorf("%s: %v", path, list.Items)
		}
		watched := testEnv.admin.send(t, request{method: "GET", path: path + "&watch=1&timeoutSeconds=1"}).mustAnswer(200, `"name":"web"`)
		if strings.Contains(string(watched.body), "web-too") {
			t.Errorf("%s: the watch sends events of other objects: %s", path, watched.body)
		}
		testEnv.admin.send(t, request{method: "GET", path: a.listPath(version) + "?fieldSelector=spec.nonsense%3Dweb"}).mustAnswer(400, "spec.nonsense")
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	restclient "k8s.io/client-go/rest"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1alpha1"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/planner"
)

const (
	table   = "application/json;as=Table;g=meta.k8s.io;v=v1"
	yaml    = "application/yaml" // neither protobuf nor CBOR is served
	partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// TestCopies requests histories in every way. Their copies of the workload contain a secret. Without the
// permission to get the workload, no response contains the secret; with the permission, each response does.
func TestCopies(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-of-web"
	ns := namespace(t)
	r := releasing(t, ns, "web")
	file(t, ns, r, 1, template("web:v1", secret, "1"), template("web:v2", secret+"-2", "2"))
	all := v1alpha1Path + "/namespaces/" + ns + "/rollouthistories"
	name := planner.HistoryName(&rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: r.UID}}, 1)
	of := all + "/" + name
	watched := "?watch=true&resourceVersion=0"
	for what, ask := range map[string]request{
		"get":                      {method: "GET", path: of},
		"get as a table":           {method: "GET", path: of + "?includeObject=Object", headers: map[string]string{"Accept": table}},
		"get as YAML":              {method: "GET", path: of, headers: map[string]string{"Accept": yaml}},
		"get of the status":        {method: "GET", path: of + "/status"},
		"list":                     {method: "GET", path: all},
		"list of all namespaces":   {method: "GET", path: v1alpha1Path + "/rollouthistories?fieldSelector=metadata.namespace%3D" + ns},
		"list from the cache":      {method: "GET", path: all + "?resourceVersion=0"},
		"list of one name":         {method: "GET", path: all + "?fieldSelector=metadata.name%3D" + name},
		"list as a table":          {method: "GET", path: all + "?includeObject=Object", headers: map[string]string{"Accept": table}},
		"list as YAML":             {method: "GET", path: all, headers: map[string]string{"Accept": yaml}},
		"watch":                    {method: "GET", path: all + watched},
		"watch as a table":         {method: "GET", path: all + watched + "&includeObject=Object", headers: map[string]string{"Accept": table}},
		"watch of all namespaces":  {method: "GET", path: v1alpha1Path + "/rollouthistories" + watched + "&fieldSelector=metadata.namespace%3D" + ns},
		"patch":                    {method: "PATCH", path: of, body: `{"metadata":{"annotations":{"a":"b"}}}`, headers: map[string]string{"Content-Type": string(types.MergePatchType)}},
		"patch without effect":     {method: "PATCH", path: of + "?dryRun=All", body: `{}`, headers: map[string]string{"Content-Type": string(types.MergePatchType)}},
		"delete without effect":    {method: "DELETE", path: of + "?dryRun=All"},
		"delete of several":        {method: "DELETE", path: all + "?dryRun=All"},
		"history of the Rollout":   {method: "GET", path: one(v1beta1Path, ns, "web") + "/history"},
		"restore from the history": {method: "GET", path: one(v1beta1Path, ns, "web") + "/history?release=1"},
	} {
		for user, sees := range map[string]bool{heidi: false, alice: true} {
			ask.as = user
			got := ask.first(t)
			if has := strings.Contains(string(got.body), secret); has != sees && !(sees && strings.HasPrefix(what, "delete")) {
				t.Errorf("%s by %s: the answer has the secret: %t, want %t: %s", what, user, has, sees, got.body)
			}
			if !sees && what == "get" && !strings.Contains(strings.Join(got.warnings, ""), "you lack the permission to get these resources: deployments.apps") {
				t.Errorf("warnings %q", got.warnings)
			}
		}
	}
	past := decoded[v1beta1.RolloutReleases](t, call(t, request{as: heidi, method: "GET", path: one(v1beta1Path, ns, "web") + "/history?release=1"}).must(t, http.StatusOK))
	if len(past.Releases) != 1 || len(past.Releases[0].Changes) > 0 || len(past.Releases[0].Restore.Raw) > 0 {
		t.Errorf("she sees of the release %+v", past.Releases)
	}
	metadata := call(t, request{as: heidi, method: "GET", path: all, headers: map[string]string{"Accept": partial}}).must(t, http.StatusOK)
	if strings.Contains(string(metadata.body), secret) {
		t.Errorf("the metadata has it: %s", metadata.body)
	}
}

// TestCopiesAreNoOracle writes a history without that permission: no patch reveals whether the copy has a
// value, and the stored copy stays unchanged.
func TestCopiesAreNoOracle(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	r := releasing(t, ns, "web")
	file(t, ns, r, 1, template("web:v1", "right", "1"), template("web:v2", "right", "2"))
	of := v1alpha1Path + "/namespaces/" + ns + "/rollouthistories/" + planner.HistoryName(&rollouts.Rollout{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: r.UID}}, 1)
	guess := func(as, value string) int {
		body := `[{"op":"test","path":"/spec/workload/data/template/spec/containers/0/env/0/value","value":"` + value + `"}]`
		return call(t, request{as: as, method: "PATCH", path: of, body: body, headers: map[string]string{"Content-Type": string(types.JSONPatchType)}}).code
	}
	if right, wrong := guess(alice, "right"), guess(alice, "wrong"); right != http.StatusOK || wrong != http.StatusUnprocessableEntity {
		t.Fatalf("alice, who may get the workload, guesses right with %d and wrong with %d", right, wrong)
	}
	if right, wrong := guess(heidi, "right"), guess(heidi, "wrong"); right != wrong {
		t.Errorf("a right guess is answered with %d and a wrong one with %d", right, wrong)
	}
	// The user reads the history, and writes it back with one more annotation.
	h := decoded[v1alpha1.RolloutHistory](t, call(t, request{as: heidi, method: "GET", path: of}).must(t, http.StatusOK))
	h.Annotations = map[string]string{"a": "b"}
	call(t, request{as: heidi, method: "PUT", path: of, body: h}).must(t, http.StatusOK)
	stored := decoded[v1alpha1.RolloutHistory](t, call(t, request{as: alice, method: "GET", path: of}).must(t, http.StatusOK))
	if stored.Annotations["a"] != "b" || !strings.Contains(string(stored.Spec.Workload.Data.Raw), "right") || !strings.Contains(string(stored.Spec.Stable.Data.Raw), "right") {
		t.Errorf("the stored history is %+v", stored)
	}
	h.Spec.Workload.Name = "other"
	call(t, request{as: heidi, method: "PUT", path: of, body: h}).must(t, http.StatusForbidden)
}

// first returns the response, or the first event of a watch.
func (r request) first(t *testing.T) answer {
	t.Helper()
	if !strings.Contains(r.path, "watch=true") {
		return call(t, r).must(t, http.StatusOK)
	}
	config := server.As(r.as)
	client, err := restclient.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), r.method, config.Host+r.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range r.headers {
		req.Header.Set(k, v)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	line, err := bufio.NewReader(res.Body).ReadBytes('\n')
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("watching: %d, %s (%v)", res.StatusCode, line, err)
	}
	return answer{code: res.StatusCode, body: line}
}

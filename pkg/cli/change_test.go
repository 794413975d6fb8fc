// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
)

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      initContainers:
      - {name: setup, image: "setup:v1"}
      containers:
      - {name: sidecar, image: "proxy:v1"}
      - {name: app, image: "web:v7"}
`

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// An image is set only where the container still is.
func TestSetImages(t *testing.T) {
	t.Parallel()
	workload := &unstructured.Unstructured{Object: parsed(t, deployment)}
	e, err := setImages(workload, map[string]string{"app": "web:v8"})
	want := `[{"op":"test","path":"/spec/template/spec/containers/1/name","value":"app"},` +
		`{"op":"add","path":"/spec/template/spec/containers/1/image","value":"web:v8"}]`
	if err != nil || string(e.patch) != want {
		t.Errorf("the patch is %s (%v), want %s", e.patch, err, want)
	}
	if _, err := setImages(workload, map[string]string{"ap": "web:v8"}); err == nil || !strings.Contains(err.Error(), "it has sidecar, app, setup") {
		t.Errorf("a container that is not there: %v", err)
	}
}

// undo goes back to what served before the current version, even to the version from before the first release.
func TestChooseEarlierVersion(t *testing.T) {
	t.Parallel()
	release := func(number int64, from, to string, outcome v1beta1.ReleaseOutcome) v1beta1.PastRelease {
		return v1beta1.PastRelease{ReleaseRef: v1beta1.ReleaseRef{Number: number, Stable: from, Revision: to}, Outcome: outcome}
	}
	first := release(1, "v1", "v2", "succeeded")
	second := release(2, "v2", "v3", "succeeded")
	for name, c := range map[string]struct {
		releases   []v1beta1.PastRelease
		inProgress bool
		number     int64
		isBefore   bool
	}{
		"the first release":                       {[]v1beta1.PastRelease{first}, false, 1, true},
		"the second release":                      {[]v1beta1.PastRelease{second, first}, false, 1, false},
		"the record of the first one is gone":     {[]v1beta1.PastRelease{second}, false, 2, true},
		"a release that was cancelled":            {[]v1beta1.PastRelease{release(3, "v3", "v4", "cancelled"), second, first}, false, 1, false},
		"a release in progress":                   {[]v1beta1.PastRelease{release(3, "v3", "v4", ""), second, first}, true, 2, false},
		"the first release is in progress":        {[]v1beta1.PastRelease{release(1, "v1", "v2", "")}, true, 1, true},
		"a version that Weir did not release":     {[]v1beta1.PastRelease{release(3, "v9", "v4", "succeeded"), second, first}, false, 3, true},
		"a release that another one has reverted": {[]v1beta1.PastRelease{release(2, "v2", "v1", "succeeded"), first}, false, 1, false},
	} {
		number, isBefore, err := chooseEarlierVersion(c.releases, c.inProgress)
		if number != c.number || isBefore != c.isBefore || err != nil {
			t.Errorf("%s: release %d, before it: %t (%v), want %d and %t", name, number, isBefore, err, c.number, c.isBefore)
		}
	}
	if _, _, err := chooseEarlierVersion([]v1beta1.PastRelease{release(1, "v1", "v2", "cancelled")}, false); err == nil || !strings.Contains(err.Error(), "--to") {
		t.Errorf("without a successful release: %v", err)
	}
}

// newTarget returns Rollout shop/web of a server.
func newTarget(t *testing.T, recorded *httptest.Server) *target {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client, err := restclient.RESTClientFor(&restclient.Config{Host: recorded.URL, APIPath: "/apis", ContentConfig: restclient.ContentConfig{
		GroupVersion: &v1beta1.SchemeGroupVersion, NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return &target{&server{client, "shop"}, "web"}
}

// The server has the patches that set the template of a release, and the one from before it.
func TestRestorePatch(t *testing.T) {
	t.Parallel()
	recorded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"RolloutReleases","releases":[{"number":1,"restore":{"spec":1},"restoreStable":{"spec":0}}]}`)
		if q.URL.Query().Get("release") == "" {
			t.Errorf("asked for %s", q.URL)
		}
	}))
	t.Cleanup(recorded.Close)
	web := newTarget(t, recorded)
	for isBefore, want := range map[bool]string{false: `{"spec":1}`, true: `{"spec":0}`} {
		if patch, err := web.readRestorePatch(t.Context(), 1, isBefore); err != nil || string(patch) != want {
			t.Errorf("before the release: %t: the patch is %s (%v), want %s", isBefore, patch, err, want)
		}
	}
	if _, err := web.readRestorePatch(t.Context(), 2, true); err == nil || !strings.Contains(err.Error(), "the template from before release 2 is not recorded any more") {
		t.Errorf("without a record: %v", err)
	}
}

// A release that --to names and that is not on record is answered with those that are.
func TestUndoToMissingRelease(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		`{"number":3},{"number":2},{"number":1}`: "--to 9: there is no release 9 of rollout web on record; choose one of 3, 2, 1",
		"":                                       "--to 9: there is no release 9, because rollout web has no releases on record",
	} {
		recorded := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if q.URL.Query().Get("release") != "" {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","message":"there is no release 9 of rollout web on record","code":400}`)
				return
			}
			_, _ = io.WriteString(w, `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"RolloutReleases","releases":[`+list+`]}`)
		}))
		t.Cleanup(recorded.Close)
		c := &changeCommand{to: 9}
		if _, err := c.prepareUndo(t.Context(), newTarget(t, recorded), &unstructured.Unstructured{Object: parsed(t, deployment)}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A change that would release nothing is not sent. --wait ends with the words of wait.
func TestUnchangedWorkload(t *testing.T) {
	t.Parallel()
	patched := 0
	answers := map[string]string{
		"/api":          `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1":       `{"kind":"APIResourceList","groupVersion":"v1","resources":[]}`,
		"/apis":         `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]}]}`,
		"/apis/apps/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":["get","patch"]}]}`,
		"/apis/apps/v1/namespaces/shop/deployments/web": `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web","namespace":"shop"},"spec":{"template":{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"name":"app","image":"web:v8"}]}}}}`,
		ofWeb:              `{"kind":"Rollout","apiVersion":"rollouts.kruise.io/v1beta1","spec":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}`,
		ofWeb + "/why":     `{"state":"Waiting","summary":"waits","release":{"number":12},"waitingFor":{"for":"approval"}}`,
		ofWeb + "/plan":    `{"kind":"RolloutPlan","apiVersion":"rollouts.kruise.io/v1beta1"}`,
		ofWeb + "/history": `{"releases":[{"number":12,"restore":{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"web:v8"}]}}}}}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if q.Method == http.MethodPatch {
			patched++
		}
		if answers[q.URL.Path] == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, answers[q.URL.Path])
	}))
	t.Cleanup(server.Close)
	r := &recording{Server: server}
	for _, args := range []string{"set image web app=web:v8", "undo web --to 12"} {
		out, code := r.run(t, strings.Fields(args)...)
		if code != 0 || patched != 0 || out != "deployment/web: unchanged, because it already has this template; nothing would be released\n" {
			t.Errorf("%s: exit %d, patched %d times:\n%s", args, code, patched, out)
		}
	}
	out, code := r.run(t, "set", "image", "web", "app=web:v9", "--yes", "--wait")
	if code != 0 || patched != 1 || !strings.Contains(out, "deployment/web: image set\n") || !strings.HasSuffix(out, "/web: waiting: waits\n") {
		t.Errorf("another image: exit %d, patched %d times:\n%s", code, patched, out)
	}
}

// These names are valid or invalid for container runtimes.
func TestCheckImages(t *testing.T) {
	t.Parallel()
	digest := "@sha256:" + strings.Repeat("ab", 32)
	for name, ok := range map[string]bool{
		"web": true, "web:v1": true, "shop/web:v1.2_3-x": true, "registry.example.com/shop/web": true, "registry.example.com:5000/web:v1": true,
		"localhost:5000/a__b/c-d:v1": true, "web" + digest: true, "web:v1" + digest: true, "Registry.example.com/web": true,
		"": false, "UPPER": false, "web:": false, "web:v1:v2": false, ":::": false, "web@v1": false, "/web": false, "web v1": false, "http://example.com/web": false, "shop/Web": false,
	} {
		if err := checkImages(map[string]string{"app": name}); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

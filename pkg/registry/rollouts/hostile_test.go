// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	restclient "k8s.io/client-go/rest"
)

// Requests that try to break the server get a short error of the class 4xx, and the server continues.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	releasing(t, ns, "web")
	const depth = 200_000
	deep := strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
	within := func(field, value string) string {
		return strings.Replace(manifest("bad", "bad"), `"spec": {`, `"spec": {"`+field+`": `+value+`,`, 1)
	}
	var bomb strings.Builder
	bomb.WriteString("a: &a [x,x,x,x,x,x,x,x,x]\n")
	for c := 'b'; c < 'k'; c++ {
		fmt.Fprintf(&bomb, "%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 8), c-1)
	}
	laughs := bomb.String()
	steps := strings.TrimSuffix(strings.Repeat(`{"replicas":1},`, 100_000), ",")
	object, status, promote := one(v1beta1Path, ns, "web"), one(v1beta1Path, ns, "web")+"/status", one(v1beta1Path, ns, "web")+"/promote"
	const merge, ops, apply = "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"
	for name, r := range map[string]request{
		"a deep object":            {method: "POST", path: list(v1beta1Path, ns), body: within("deep", deep)},
		"a deep object, old":       {method: "POST", path: list(v1alpha1Path, ns), body: within("deep", deep)},
		"a deep update":            {method: "PUT", path: object, body: within("deep", deep)},
		"a deep patch":             {method: "PATCH", path: object, body: deep, headers: typed(merge)},
		"a deep patch of a status": {method: "PATCH", path: status, body: deep, headers: typed(merge)},
		"a deep apply":             {method: "PATCH", path: object + "?fieldManager=me", body: deep, headers: typed(apply)},
		"a deep verb":              {method: "POST", path: promote, body: deep},
		"many operations": {method: "PATCH", path: object, headers: typed(ops),
			body: "[" + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/a"},`, 20_000), ",") + "]"},
		"a bomb of YAML":        {method: "PATCH", path: object + "?fieldManager=me", body: laughs, headers: typed(apply)},
		"a created bomb":        {method: "POST", path: list(v1beta1Path, ns), body: laughs, headers: typed("application/yaml")},
		"too many steps":        {method: "PATCH", path: object, body: `{"spec":{"strategy":{"canary":{"steps":[` + steps + `]}}}}`, headers: typed(merge)},
		"no UTF-8":              {method: "POST", path: list(v1beta1Path, ns), body: within("odd", "\"\xff\xfe\"") + "\xff"},
		"half an object":        {method: "POST", path: list(v1beta1Path, ns), body: manifest("bad", "bad")[:100]},
		"a number too large":    {method: "PATCH", path: object, body: `{"spec":{"strategy":{"canary":{"steps":[{"replicas":1e999}]}}}}`, headers: typed(merge)},
		"another kind":          {method: "POST", path: list(v1beta1Path, ns), body: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`},
		"an unknown media type": {method: "POST", path: promote, body: "step=1", headers: typed("application/x-www-form-urlencoded")},
		"a verb in YAML":        {method: "POST", path: promote, body: laughs, headers: typed("application/yaml")},
	} {
		t.Run(name, func(t *testing.T) {
			r.as = alice
			a := call(t, r)
			if a.code < 400 || a.code >= 500 || len(a.body) > 4000 {
				t.Errorf("got %d with %d bytes, want a short refusal: %.300s", a.code, len(a.body), a.body)
			}
		})
	}
	if r := get(t, ns, "web"); len(r.Spec.Strategy.Canary.Steps) != 3 || len(r.Status.Decisions) != 0 {
		t.Errorf("something got through: %+v", r)
	}
}

func typed(media string) map[string]string { return map[string]string{"Content-Type": media} }

// No reference can leave the namespace of its Rollout: there is no field for another namespace, and no name
// can be parsed as a path.
func TestReferencesStay(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	const canary = `{"spec":{"strategy":{"canary":{%s}}}}`
	create(t, ns, "web", "web")
	for _, name := range []string{"../other/web", "other/web", "..", "%2e%2e%2fweb", "other:web", `other\\web`} {
		for field, body := range map[string]string{
			"workloadRef":       `{"spec":{"workloadRef":{"name":"` + name + `"}}}`,
			"service":           fmt.Sprintf(canary, `"trafficRoutings":[{"service":"`+name+`","ingress":{"name":"web"}}]`),
			"ingress":           fmt.Sprintf(canary, `"trafficRoutings":[{"service":"web","ingress":{"name":"`+name+`"}}]`),
			"httpRouteName":     fmt.Sprintf(canary, `"trafficRoutings":[{"service":"web","gateway":{"httpRouteName":"`+name+`"}}]`),
			"customNetworkRefs": fmt.Sprintf(canary, `"trafficRoutings":[{"service":"web","customNetworkRefs":[{"apiVersion":"a.b/v1","kind":"C","name":"`+name+`"}]}]`),
		} {
			a := patch(t, alice, one(v1beta1Path, ns, "web"), body).must(t, http.StatusUnprocessableEntity)
			if !strings.Contains(a.status().Message, field) {
				t.Errorf("%s %q: the answer should name the field: %s", field, name, a.body)
			}
		}
	}
	for field, body := range map[string]string{
		"spec.workloadRef.namespace": `{"spec":{"workloadRef":{"namespace":"kube-system"}}}`,
		"namespace":                  fmt.Sprintf(canary, `"trafficRoutings":[{"service":"web","namespace":"kube-system","ingress":{"name":"web"}}]`),
	} {
		a := patch(t, alice, one(v1beta1Path, ns, "web")+"?fieldValidation=Strict", body).must(t, http.StatusUnprocessableEntity)
		if !strings.Contains(a.status().Message, "unknown field") || !strings.Contains(a.status().Message, field) {
			t.Errorf("%s should be unknown: %s", field, a.body)
		}
	}
	other := strings.Replace(manifest("elsewhere", "web"), `"name": "elsewhere"`, `"name": "elsewhere", "namespace": "kube-system"`, 1)
	call(t, request{as: alice, method: "POST", path: list(v1beta1Path, ns), body: other}).must(t, http.StatusBadRequest)
}

// No path causes a redirect to another server.
func TestNoRedirects(t *testing.T) {
	t.Parallel()
	config := server.As(admin)
	transport, err := restclient.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"//evil.example.com/apis", "/%2f%2fevil.example.com", "/apis//rollouts.kruise.io", "/apis/rollouts.kruise.io/../../api",
		"/apis/rollouts.kruise.io/v1beta1/", "/apis/rollouts.kruise.io/v1beta1/namespaces/a/rollouts/", `/\evil.example.com`,
		"/apis/rollouts.kruise.io/v1beta1/namespaces/../rollouts", "/debug/pprof", "/swagger-ui/", "/ui", "/logs/../../etc/passwd",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Opaque = "//" + r.URL.Host + path
		a, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		_ = a.Body.Close() // it is not read
		if to := a.Header.Get("Location"); a.StatusCode >= 300 && a.StatusCode < 400 && !strings.HasPrefix(to, "/debug/pprof") {
			t.Errorf("%s is answered with %d to %q", path, a.StatusCode, to)
		}
	}
}

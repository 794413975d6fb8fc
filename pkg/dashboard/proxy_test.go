// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	rollout = apiPath + "/namespaces/shop/rollouts/web"
	now     = "2026-01-02T10:00:00Z"

	deployment = "/apis/apps/v1/namespaces/shop/deployments/web"
)

// cluster returns a server that records its requests and their users.
func cluster(t *testing.T) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer unknown" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Content-Type", "application/json")
		var as []string
		for name, values := range r.Header {
			if name != "Accept-Encoding" && name != "Content-Length" {
				as = append(as, name+"="+strings.Join(values, ","))
			}
		}
		slices.Sort(as)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.RequestURI(), strings.Join(as, " "))
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func proxied(t *testing.T, who Identity, config *rest.Config, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	handler, err := NewProxy(config, who, About{})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func request(method, path string, header ...string) *http.Request {
	r := httptest.NewRequest(method, "http://127.0.0.1:4321"+path, strings.NewReader("{}"))
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// Only the requests of the pages are forwarded, even if the user may send others.
func TestPassed(t *testing.T) {
	t.Parallel()
	for request, passes := range map[string]bool{
		"GET " + apiPath + "/rollouts?limit=500":               true,
		"GET " + apiPath + "/namespaces/shop/rollouts?watch=1": true,
		"GET " + rollout:          true,
		"GET " + rollout + "/why": true,
		"GET " + apiPath + "/watch/namespaces/shop/rollouts/web/tree":                  true,
		"GET /api/v1/namespaces/shop/pods/web-1/log?tailLines=100":                     true,
		"POST " + rollout + "/promote":                                                 true,
		"POST " + rollout + "/a":                                                       true,
		"POST " + rollout:                                                              false,
		"PUT " + rollout:                                                               false,
		"PATCH " + rollout + "/status":                                                 false,
		"DELETE " + rollout:                                                            false,
		"GET /api/v1/namespaces/shop/secrets/a":                                        false,
		"GET /api/v1/namespaces/shop/pods/web-1":                                       false,
		"GET /api/v1/namespaces/shop/pods/web-1/exec":                                  false,
		"GET /apis/rollouts.kruise.io/v1alpha1/rollouts":                               false,
		"GET /apis/rollouts.kruise.io/v1alpha1/rollouthistories?limit=200":             true,
		"GET /apis/rollouts.kruise.io/v1alpha1/namespaces/shop/rollouthistories":       true,
		"GET /apis/rollouts.kruise.io/v1alpha1/namespaces/shop/rollouthistories/web-1": false,
		"DELETE /apis/rollouts.kruise.io/v1alpha1/namespaces/shop/rollouthistories":    false,
		"GET " + apiPath + "/namespaces/shop/rollouts/../../../../secrets":             false,
		"GET " + apiPath + "/namespaces/shop%2Frollouts/web":                           false,
		"GET " + rollout + "/why/more":                                                 false,
		"GET /metrics":                                                                 false,
		"GET " + deployment:                                                            true,
		"GET /apis/apps/v1/deployments":                                                false,
		"GET /apis/apps/v1/namespaces/shop/deployments":                                false,
		"GET /apis/apps/v1/namespaces/shop/deployments/web/scale":                      false,
		"GET /apis/apps/v1/namespaces/shop/replicasets/web":                            false,
		"GET /apis/apps.kruise.io/v1alpha1/namespaces/shop/clonesets/web":              true,
		"GET /apis/appsxkruise.io/v1alpha1/namespaces/shop/clonesets/web":              false,
		"DELETE " + deployment:                                                         false,
		"PUT " + deployment:                                                            false,
		"POST /apis/apps/v1/namespaces/shop/deployments":                               false,
	} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			method, path, _ := strings.Cut(request, " ")
			r := httptest.NewRequest(method, "http://127.0.0.1:4321/", strings.NewReader("{}"))
			r.URL.RawQuery = ""
			if u, err := r.URL.Parse("http://127.0.0.1:4321" + path); err == nil {
				r.URL = u
			}
			r.Header.Set("Authorization", "Bearer t")
			w := proxied(t, Bearer{}, cluster(t), r)
			if got := w.Code == http.StatusOK; got != passes {
				t.Errorf("answer %d: %s", w.Code, w.Body)
			}
			if passes && !strings.HasPrefix(w.Body.String(), request) {
				t.Errorf("the cluster was asked %q", w.Body)
			}
			for _, name := range []string{"Set-Cookie", "Access-Control-Allow-Origin"} {
				if w.Header().Get(name) != "" {
					t.Errorf("%s came back", name)
				}
			}
			if w.Header().Get("Content-Security-Policy") != contentSecurityPolicy {
				t.Error("no policy came back")
			}
		})
	}
}

// The pages may set the pod template of a workload, and nothing else of any object.
func TestTemplatePatch(t *testing.T) {
	t.Parallel()
	const merge, template = "application/merge-patch+json", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:v7"}]}}}}`
	for name, tc := range map[string]struct {
		path, media, body string
		passes            bool
	}{
		"the template":          {deployment, merge, template, true},
		"of a CloneSet":         {"/apis/apps.kruise.io/v1alpha1/namespaces/shop/clonesets/web", merge, template, true},
		"of a Rollout":          {rollout, merge, template, false},
		"a scale":               {deployment + "/scale", merge, template, false},
		"the replicas":          {deployment, merge, `{"spec":{"replicas":0}}`, false},
		"and the replicas":      {deployment, merge, `{"spec":{"replicas":0,"template":{"spec":{}}}}`, false},
		"and an annotation":     {deployment, merge, `{"metadata":{"annotations":{"a":"b"}},"spec":{"template":{"spec":{}}}}`, false},
		"no template":           {deployment, merge, `{"spec":{"template":null}}`, false},
		"no object":             {deployment, merge, `[]`, false},
		"two objects":           {deployment, merge, template + `{"spec":{"replicas":0}}`, false},
		"a second spec":         {deployment, merge, `{"spec":{"template":{}},"Spec":{"replicas":0}}`, false},
		"a JSON patch":          {deployment, "application/json-patch+json", template, false},
		"a strategic patch":     {deployment, "application/strategic-merge-patch+json", template, false},
		"an apply":              {deployment, "application/apply-patch+yaml", template, false},
		"more than the maximum": {deployment, merge, `{"spec":{"template":{"a":"` + strings.Repeat("a", maxBodyBytes) + `"}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got string
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				got = r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Content-Type") + " " + string(body)
			}))
			t.Cleanup(server.Close)
			r := httptest.NewRequest(http.MethodPatch, "http://127.0.0.1:4321"+tc.path+"?dryRun=All", strings.NewReader(tc.body))
			r.Header.Set("Authorization", "Bearer t")
			r.Header.Set("Content-Type", tc.media)
			w := proxied(t, Bearer{}, &rest.Config{Host: server.URL}, r)
			want := ""
			if tc.passes {
				want = "PATCH " + tc.path + "?dryRun=All " + tc.media + " " + tc.body
			}
			if got != want {
				t.Errorf("the cluster was asked %.200q, want %.200q (answer %d: %s)", got, want, w.Code, w.Body)
			}
		})
	}
}

// Only trusted requests determine the user, and the cluster gets no other headers about users.
func TestIdentities(t *testing.T) {
	t.Parallel()
	secret := Secret{Value: "s3cret", Host: "127.0.0.1:4321"}
	in := Impersonation{Secret: "p", Prefix: "sso:", UserHeader: "Argocd-Username", GroupsHeader: "Argocd-User-Groups"}
	for name, tc := range map[string]struct {
		who    Identity
		header []string
		change func(*http.Request)
		code   int
		told   string
	}{
		"the address":             {who: secret, header: []string{"X-Weir-Secret", "s3cret"}, code: 200, told: "User-Agent=weir-dashboard"},
		"another secret":          {who: secret, header: []string{"X-Weir-Secret", "other"}, code: 401},
		"no secret":               {who: secret, code: 401},
		"a name that is led here": {who: secret, header: []string{"X-Weir-Secret", "s3cret"}, change: func(r *http.Request) { r.Host = "evil.example" }, code: 401},
		"a page of another site":  {who: secret, header: []string{"X-Weir-Secret", "s3cret", "Sec-Fetch-Site", "cross-site"}, code: 403},
		"a token":                 {who: Bearer{}, header: []string{"Authorization", "Bearer t"}, code: 200, told: "Authorization=Bearer t User-Agent=weir-dashboard"},
		"a password":              {who: Bearer{}, header: []string{"Authorization", "Basic t"}, code: 401},
		"a token, and a claim":    {who: Bearer{}, header: []string{"Authorization", "Bearer t", "Impersonate-User", "root", "X-Remote-User", "root"}, code: 200, told: "Authorization=Bearer t User-Agent=weir-dashboard"},
		"a user":                  {who: in, header: []string{"X-Weir-Proxy", "p", "Argocd-Username", "alice", "Argocd-User-Groups", "a, b"}, code: 200, told: "Impersonate-Group=sso:a,sso:b Impersonate-User=sso:alice User-Agent=weir-dashboard"},
		"a page of Argo CD": {
			who: in, header: []string{"X-Weir-Proxy", "p", "Argocd-Username", "alice", "Sec-Fetch-Site", "same-origin", "Origin", "https://argocd.example"},
			code: 200, told: "Impersonate-User=sso:alice User-Agent=weir-dashboard",
		},
		"groups that are not asked for": {
			who:    Impersonation{Secret: "p", Prefix: "sso:", UserHeader: "Argocd-Username"},
			header: []string{"X-Weir-Proxy", "p", "Argocd-Username", "alice", "Argocd-User-Groups", "admins"},
			code:   200, told: "Impersonate-User=sso:alice User-Agent=weir-dashboard",
		},
		"a user of the system":                            {who: in, header: []string{"X-Weir-Proxy", "p", "Argocd-Username", "system:admin", "Argocd-User-Groups", "system:masters"}, code: 200, told: "Impersonate-Group=sso:system:masters Impersonate-User=sso:system:admin User-Agent=weir-dashboard"},
		"a user whom the prefix makes one of the system":  {who: Impersonation{Secret: "p", Prefix: "sys", UserHeader: "U"}, header: []string{"X-Weir-Proxy", "p", "U", "tem:admin"}, code: 403},
		"a group that the prefix makes one of the system": {who: Impersonation{Secret: "p", Prefix: "sys", UserHeader: "U", GroupsHeader: "G"}, header: []string{"X-Weir-Proxy", "p", "U", "alice", "G", "a, tem:masters"}, code: 403},
		"a user and another":                              {who: in, header: []string{"X-Weir-Proxy", "p", "Argocd-Username", "alice", "Impersonate-User", "bob", "Impersonate-Extra-A", "b"}, code: 200, told: "Impersonate-User=sso:alice User-Agent=weir-dashboard"},
		"two users":                                       {who: in, header: []string{"X-Weir-Proxy", "p", "Argocd-Username", "alice", "Argocd-Username", "bob"}, code: 401},
		"a user of nobody":                                {who: in, header: []string{"Argocd-Username", "alice"}, code: 401},
		"a user, without any secret":                      {who: Impersonation{UserHeader: "U"}, header: []string{"U", "alice", "X-Weir-Proxy", ""}, code: 401},
		"nobody":                                          {who: in, header: []string{"X-Weir-Proxy", "p"}, code: 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request("POST", rollout+"/promote", tc.header...)
			if tc.change != nil {
				tc.change(r)
			}
			w := proxied(t, tc.who, cluster(t), r)
			got := []any{w.Code, ""}
			if w.Code == http.StatusOK {
				got[1] = strings.TrimPrefix(w.Body.String(), "POST "+rollout+"/promote ")
			}
			if diff := cmp.Diff([]any{tc.code, tc.told}, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s%s", diff, w.Body)
			}
		})
	}
}

// A user enters a token once, and the session lasts eight hours. The cookie does not reveal the token, and
// no other cookie is accepted.
func TestSessions(t *testing.T) {
	t.Parallel()
	at, err := time.Parse(time.RFC3339, now)
	if err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakePassiveClock(at)
	sessions := func(key string) *Sessions {
		block, err := aes.NewCipher([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			t.Fatal(err)
		}
		return &Sessions{Sealed: sealed, Clock: clock}
	}
	s, config := sessions("0123456789abcdef"), cluster(t)
	sign := func(token string) *http.Response {
		r := request("POST", Root+"session")
		r.Body = io.NopCloser(strings.NewReader(`{"token":"` + token + `"}`))
		return proxied(t, s, config, r).Result()
	}
	for token, code := range map[string]int{"": 400, "unknown": 403, "a b": 400, strings.Repeat("a", maxTokenBytes+1): 400} {
		if got := sign(token); got.StatusCode != code || len(got.Cookies()) > 0 {
			t.Errorf("answer %d to the token %.10q, want %d", got.StatusCode, token, code)
		}
	}
	given := sign("t").Cookies()
	if len(given) != 1 || !given[0].Secure || !given[0].HttpOnly || given[0].SameSite != http.SameSiteStrictMode || given[0].Path != "/" || given[0].Domain != "" {
		t.Fatalf("cookies are %v", given)
	}
	use := func(s *Sessions, value string) int {
		w := proxied(t, s, config, request("GET", rollout, "Cookie", cookieName+"="+value))
		if w.Code == http.StatusOK && !strings.HasSuffix(w.Body.String(), " Authorization=Bearer t User-Agent=weir-dashboard") {
			t.Errorf("the cluster was asked %q", w.Body)
		}
		if w.Code == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") != "Weir-Token" {
			t.Error("the page is not told to ask for a token")
		}
		return w.Code
	}
	value := given[0].Value
	got := []int{use(s, value), use(sessions("another key 6789"), value), use(s, value[:len(value)-2]), use(s, "")}
	clock.SetTime(at.Add(sessionDuration - time.Second))
	got = append(got, use(s, value))
	clock.SetTime(at.Add(sessionDuration))
	got = append(got, use(s, value))
	if diff := cmp.Diff([]int{200, 401, 401, 401, 200, 401}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if out := proxied(t, s, config, request("DELETE", Root+"session")).Result().Cookies(); len(out) != 1 || out[0].MaxAge >= 0 {
		t.Errorf("cookies after signing out are %v", out)
	}
}

// The command prints an address on this machine. Requests without its secret are refused.
func TestServeLocal(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	address, ended := make(chan string, 1), make(chan error, 1)
	config := cluster(t)
	go func() { ended <- ServeLocal(ctx, config, About{Cluster: "blue"}, func(a string) { address <- a }) }()
	base, secret, _ := strings.Cut(<-address, "#secret=")
	if !strings.HasPrefix(base, "http://127.0.0.1:") || len(secret) < 20 {
		t.Errorf("the address is %s#secret=%s", base, secret)
	}
	var got []int
	for _, path := range []string{"", "../rollouts", "../../../../"} {
		for _, shown := range []string{secret, ""} {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, base, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.URL, err = r.URL.Parse(path); err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Weir-Secret", shown)
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, res.StatusCode)
			if err := res.Body.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if diff := cmp.Diff([]int{200, 200, 200, 401, 302, 302}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

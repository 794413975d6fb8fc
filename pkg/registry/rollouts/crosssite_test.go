// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
)

// A page of another site cannot decide or create with the credentials that kubectl proxy adds. Programs and
// pages of the same origin can.
func TestCrossSite(t *testing.T) {
	t.Parallel()
	const form, text, json = "application/x-www-form-urlencoded", "text/plain", "application/json"
	site := func(value string) map[string]string { return map[string]string{"Sec-Fetch-Site": value} }
	origin := func(value string) map[string]string { return map[string]string{"Origin": value} }
	evil := map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
	for name, tt := range map[string]struct {
		headers map[string]string
		media   string
		body    any
		code    int
	}{
		"a form":                                {evil, form, `{"full":true}`, http.StatusForbidden},
		"a form with a charset":                 {evil, "Application/X-WWW-Form-Urlencoded; charset=utf-8", `{}`, http.StatusForbidden},
		"a form with files":                     {evil, "multipart/form-data; boundary=a", `{}`, http.StatusForbidden},
		"text":                                  {evil, text, `{}`, http.StatusForbidden},
		"text that names another type":          {evil, "text/plain; application/json", `{}`, http.StatusForbidden},
		"two types":                             {evil, "text/plain, application/json", `{}`, http.StatusForbidden},
		"no type":                               {evil, "", `{}`, http.StatusForbidden},
		"no body":                               {evil, "", nil, http.StatusForbidden},
		"a beacon":                              {evil, text + ";charset=UTF-8", ``, http.StatusForbidden},
		"a ping of a link":                      {evil, "text/ping", `{}`, http.StatusForbidden},
		"a ping without a body":                 {evil, "text/ping", nil, http.StatusForbidden},
		"a report":                              {evil, "application/csp-report", `{}`, http.StatusForbidden},
		"reports, and no body":                  {evil, "application/reports+json", nil, http.StatusForbidden},
		"another port of this host":             {site("same-site"), text, `{}`, http.StatusForbidden},
		"a site of no known kind":               {site("elsewhere"), text, `{}`, http.StatusForbidden},
		"a site that says it is local":          {map[string]string{"Origin": "http://localhost:3000", "Sec-Fetch-Site": "cross-site"}, text, `{}`, http.StatusForbidden},
		"an older browser":                      {origin("https://evil.example"), text, `{}`, http.StatusForbidden},
		"an older browser, a name like a local": {origin("http://localhost.evil.example"), text, `{}`, http.StatusForbidden},
		"an older browser, an address in it":    {origin("http://127.0.0.1.evil.example:80"), text, `{}`, http.StatusForbidden},
		"an older browser, a user in it":        {origin("http://localhost@evil.example"), text, `{}`, http.StatusForbidden},
		"an older browser, a frame or a file":   {origin("null"), text, `{}`, http.StatusForbidden},

		"an old browser that names the page only": {map[string]string{"Referer": "http://evil.example/a"}, form, ``, http.StatusForbidden},

		"an old browser, a page of this machine":      {map[string]string{"Referer": "http://127.0.0.1:8001/ui"}, form, ``, http.StatusCreated},
		"asked before, and somebody agreed":           {evil, json, `{}`, http.StatusCreated},
		"a page of the same origin":                   {site("same-origin"), form, `{}`, http.StatusCreated},
		"a user":                                      {site("none"), "", nil, http.StatusCreated},
		"an older browser on this machine":            {origin("http://127.0.0.1:8001"), "", nil, http.StatusCreated},
		"an older browser on this machine, by name":   {origin("http://localhost:8001"), text + "x/json", nil, http.StatusCreated},
		"an older browser on this machine, version 6": {origin("http://[::1]:8001"), form, `{}`, http.StatusCreated},
		"curl":           {nil, form, `{}`, http.StatusCreated},
		"curl, no body":  {nil, "", nil, http.StatusCreated},
		"kubectl create": {nil, json, ``, http.StatusCreated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			releasing(t, ns, "web")
			headers := map[string]string{"Content-Type": tt.media}
			maps.Copy(headers, tt.headers)
			a := call(t, request{as: alice, method: "POST", path: one(v1beta1Path, ns, "web") + "/promote", body: tt.body, headers: headers}).must(t, tt.code)
			if n, want := len(get(t, ns, "web").Status.Decisions), map[bool]int{true: 1}[tt.code == http.StatusCreated]; n != want {
				t.Errorf("%d decisions on record, want %d", n, want)
			}
			if m := a.status().Message; tt.code == http.StatusForbidden && !strings.Contains(m, "Content-Type: application/json") {
				t.Errorf("message is %q, want what to send instead", m)
			}
			// The page cannot create objects without a content type either: the server would decode them as
			// JSON.
			if tt.code == http.StatusForbidden {
				headers["Content-Type"] = ""
				call(t, request{as: alice, method: "POST", path: list(v1beta1Path, ns), body: manifest("new", "new"), headers: headers}).must(t, http.StatusForbidden)
			}
		})
	}
	// The page that opened a WebSocket could read it.
	for _, page := range []map[string]string{{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}} {
		upgrade := map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
		maps.Copy(upgrade, page)
		call(t, request{as: alice, method: "GET", path: list(v1beta1Path, namespace(t)) + "?watch=true", headers: upgrade}).must(t, http.StatusForbidden)
	}
	// The server refuses preflight requests.
	a := call(t, request{as: alice, method: "OPTIONS", path: list(v1beta1Path, namespace(t)), headers: map[string]string{
		"Origin": "https://evil.example", "Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "content-type",
	}})
	if a.code < 400 {
		t.Errorf("a browser that asks is answered %d", a.code)
	}
}

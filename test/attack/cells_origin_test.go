// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package attack

import (
	"bufio"
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
)

var originCells = []cell{
	{who: page, what: skip, how: "a form of another origin", on: scene{at: midway}, do: fromAnotherOrigin, expect: forbiddenPage},
	{who: page, what: skip, how: "a program beside the proxy", on: scene{at: midway}, do: fromTheShell, expect: served},
	{who: nobody, what: skip, how: "every verb", on: scene{at: midway}, do: everyVerbBut(), expect: unknown},
}

// proxy is a real kubectl proxy with the name of a user, who is not asked again.
func (a *app) proxy() *user {
	a.t.Helper()
	kubeconfig, err := here.cluster.KubeconfigAs(string(page))
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, quit := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(here.cluster.Bin(), "kubectl"), "--kubeconfig="+kubeconfig, "proxy", "--port=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		quit()
		_ = cmd.Wait() // it was ended
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	if err != nil || address == "" {
		a.t.Fatalf("kubectl proxy said %q: %v", line, err)
	}
	return &user{name: "page", host: "http://" + address, http: &http.Client{}}
}

// fromAnotherOrigin sends what a page may send without being asked: the headers are
// those that a browser sets, and no page can leave out.
func fromAnotherOrigin(a *app, _ *user) {
	a.t.Helper()
	browser := a.proxy()
	const form = "application/x-www-form-urlencoded"
	origin := http.Header{"Origin": {"https://evil.example"}}
	site := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"no-cors"}}
	both := http.Header{"Origin": {"https://evil.example"}, "Sec-Fetch-Site": {"cross-site"}}
	opaque := http.Header{"Origin": {"null"}, "Sec-Fetch-Site": {"cross-site"}}
	neighbour := http.Header{"Origin": {"http://127.0.0.1:1"}, "Sec-Fetch-Site": {"same-site"}}
	for _, more := range []http.Header{origin, site, both, opaque, neighbour} {
		for _, verb := range words("promote", "abort", "pause") {
			for kind, body := range map[string]string{
				"text/plain": `{"full":true}`, form: "{}", "multipart/form-data; boundary=x": "--x--", "text/plain;charset=UTF-8": "", untyped: "",
			} {
				a.tries(browser, request{method: http.MethodPost, path: a.api() + "/" + verb, kind: kind, body: body, more: more})
			}
		}
	}
	both["Access-Control-Request-Method"] = []string{http.MethodPatch}
	got := a.asksAnyway(browser, request{method: http.MethodOptions, path: a.api() + "/promote", more: both})
	if got.header.Get("Access-Control-Allow-Origin") != "" {
		a.t.Errorf("a page may send what it likes: %v", got.header)
	}
}

// asksAnyway sends a request whose answer is judged by the caller.
func (a *app) asksAnyway(u *user, r request) answer {
	a.t.Helper()
	got, err := u.send(a.t.Context(), r)
	if err != nil {
		a.t.Fatal(err)
	}
	return got
}

func forbiddenPage(a *app) {
	a.t.Helper()
	a.answered(http.StatusForbidden)
	a.same()
	a.goesOn()
}

// fromTheShell sends what curl does, which says nothing of an origin.
func fromTheShell(a *app, _ *user) {
	a.t.Helper()
	shell := a.proxy()
	for _, kind := range words("application/x-www-form-urlencoded", "application/json") {
		a.tries(shell, request{method: http.MethodPost, path: a.api() + "/pause", kind: kind})
		a.tries(shell, request{method: http.MethodPost, path: a.api() + "/resume", kind: kind, body: "{}"})
	}
	a.tries(shell, request{method: http.MethodPost, path: a.api() + "/promote", kind: "application/x-www-form-urlencoded", body: `{"expect":{"step":1}}`})
}

func served(a *app) {
	a.t.Helper()
	a.answered(http.StatusCreated)
	a.until("step 2 waits", a.waitsAt(2))
	a.goesOn()
}

// unknown wants every request to be refused, as one without a name is.
func unknown(a *app) {
	a.t.Helper()
	a.answered(http.StatusUnauthorized, http.StatusForbidden)
	a.same()
	a.goesOn()
}

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
	{who: page, what: skip, how: "a form of another origin", scenario: scenario{at: atStep1}, attack: fromAnotherOrigin, expect: pageIsRefused},
	{who: page, what: skip, how: "a program on the host of the proxy", scenario: scenario{at: atStep1}, attack: sendsLikeCurl, expect: step1IsPromoted},
	{who: nobody, what: skip, how: "every verb", scenario: scenario{at: atStep1}, attack: everyVerbBut(), expect: isUnauthorized},
}

// proxy is a real kubectl proxy with the credentials of a user.
func (a *app) proxy() *user {
	a.t.Helper()
	kubeconfig, err := testEnv.cluster.KubeconfigAs(string(page))
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, quit := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(testEnv.cluster.Bin(), "kubectl"), "--kubeconfig="+kubeconfig, "proxy", "--port=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		quit()
		_ = cmd.Wait() // the test has ended it
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	if err != nil || address == "" {
		a.t.Fatalf("kubectl proxy printed %q: %v", line, err)
	}
	return &user{name: "page", host: "http://" + address, http: &http.Client{}}
}

// fromAnotherOrigin sends requests that a web page can send without a CORS preflight. A browser
// sets the headers, and a page cannot omit them.
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
				"text/plain": `{"full":true}`, form: "{}", "multipart/form-data; boundary=x": "--x--", "text/plain;charset=UTF-8": "", noContentType: "",
			} {
				a.attackWith(browser, request{method: http.MethodPost, path: a.api() + "/" + verb, kind: kind, body: body, more: more})
			}
		}
	}
	both["Access-Control-Request-Method"] = []string{http.MethodPatch}
	got := a.sendAs(browser, request{method: http.MethodOptions, path: a.api() + "/promote", more: both})
	if got.header.Get("Access-Control-Allow-Origin") != "" {
		a.t.Errorf("a page may send any request: %v", got.header)
	}
}

// sendAs sends a request whose answer the caller checks.
func (a *app) sendAs(u *user, r request) answer {
	a.t.Helper()
	got, err := u.send(a.t.Context(), r)
	if err != nil {
		a.t.Fatal(err)
	}
	return got
}

func pageIsRefused(a *app) {
	a.t.Helper()
	a.answered(http.StatusForbidden)
	a.checkUnchanged()
	a.checkNextRelease()
}

// sendsLikeCurl sends a request without origin headers, as curl does.
func sendsLikeCurl(a *app, _ *user) {
	a.t.Helper()
	shell := a.proxy()
	for _, kind := range words("application/x-www-form-urlencoded", "application/json") {
		a.attackWith(shell, request{method: http.MethodPost, path: a.api() + "/pause", kind: kind})
		a.attackWith(shell, request{method: http.MethodPost, path: a.api() + "/resume", kind: kind, body: "{}"})
	}
	a.attackWith(shell, request{method: http.MethodPost, path: a.api() + "/promote", kind: "application/x-www-form-urlencoded", body: `{"expect":{"step":1}}`})
}

func step1IsPromoted(a *app) {
	a.t.Helper()
	a.answered(http.StatusCreated)
	a.eventually("step 2 waits", a.waitsAtStep(2))
	a.checkNextRelease()
}

// isUnauthorized expects that every request is refused, because it has no identity.
func isUnauthorized(a *app) {
	a.t.Helper()
	a.answered(http.StatusUnauthorized, http.StatusForbidden)
	a.checkUnchanged()
	a.checkNextRelease()
}

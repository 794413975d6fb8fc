// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const secret = "s3cr3t-0815"

// TestAuth has a server that answers only those it knows.
func TestAuth(t *testing.T) {
	var tokens atomic.Int32
	token := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens.Add(1)
		if id, password, _ := r.BasicAuth(); id != "weir" || password != secret || r.FormValue("scope") != "read" {
			t.Errorf("the token URL was asked by %s for %s", id, r.FormValue("scope"))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"of-oauth","token_type":"Bearer","expires_in":3600}`)
	}))
	for _, test := range []struct {
		name   string
		config Config
		header string
		want   string
	}{
		{"nobody", Config{}, "Authorization", ""},
		{"basic", Config{Username: "weir", Password: secret}, "Authorization", "Basic d2VpcjpzM2NyM3QtMDgxNQ=="},
		{"bearer", Config{Token: secret}, "Authorization", "Bearer " + secret},
		{"OAuth2", Config{OAuth2: &OAuth2{ID: "weir", Secret: secret, TokenURL: token, Scopes: []string{"read"}}}, "Authorization", "Bearer of-oauth"},
		{"a header of the tenant", Config{Headers: map[string]string{"x-scope-orgid": "org-$namespace"}}, "X-Scope-OrgID", "org-shop"},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get(test.header); got != test.want {
					t.Errorf("%s: got %q, want %q", test.header, got, test.want)
				}
				fmt.Fprint(w, matrix(""))
			}))
			client := dialled(t, url, test.config, local)
			for i := range 2 {
				if _, fault := client.Query(t.Context(), noon.Add(time.Duration(i)*time.Hour), question); fault != nil {
					t.Error(fault)
				}
			}
		})
	}
	if tokens.Load() != 1 {
		t.Errorf("asked for %d tokens, want one for all questions", tokens.Load())
	}
}

// A client that is closed leaves no connection open, whatever it asks with.
func TestClose(t *testing.T) {
	for name, with := range map[string]Config{"nobody": {}, "basic": {Username: "weir", Password: secret}, "OAuth2": {OAuth2: &OAuth2{ID: "weir", Secret: secret}}} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan struct{}, 10)
			counted := func(body string) string {
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprint(w, body)
				}))
				server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
					if s == http.StateClosed {
						closed <- struct{}{}
					}
				}
				server.Start()
				t.Cleanup(server.Close)
				return server.URL
			}
			open := 1
			if with.OAuth2 != nil {
				with.OAuth2.TokenURL, open = counted(`{"access_token":"of-oauth","token_type":"Bearer","expires_in":3600}`), 2
			}
			client := dialled(t, counted(matrix("")), with, local)
			if _, fault := client.Query(t.Context(), noon, question); fault != nil {
				t.Fatal(fault)
			}
			client.Close()
			for range open {
				<-closed // each connection is closed, or this never ends
			}
		})
	}
}

// TestTokenURL has servers of tokens that do what servers of metrics may not do either.
func TestTokenURL(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"401": {text(401, `{"error":"invalid_client","error_description":"`+secret+`"}`), "no token: the token URL answers 401 Unauthorized"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254", http.StatusTemporaryRedirect)
		}, "the server redirects, which is not followed; name the address that it has now"},
		"10 MiB": {text(200, strings.Repeat("x", 10<<20)), "cannot reach the source: oauth2: server response missing access_token"},
	} {
		t.Run(name, func(t *testing.T) {
			client := dialled(t, serve(t, text(200, matrix(""))), Config{OAuth2: &OAuth2{ID: "weir", Secret: secret, TokenURL: serve(t, test.handler)}}, local)
			if _, fault := client.Query(t.Context(), noon, question); fault == nil || !strings.HasPrefix(fault.Why, test.want) {
				t.Errorf("got %v, want %q", fault, test.want)
			}
		})
	}
	rules := AddressRules{Hosts: []string{"127.0.0.1"}}
	client := dialled(t, serve(t, text(200, matrix(""))), Config{OAuth2: &OAuth2{ID: "weir", Secret: secret, TokenURL: "http://localhost:1"}}, rules)
	if _, fault := client.Query(t.Context(), noon, question); fault == nil || !strings.HasPrefix(fault.Why, "localhost is not among the hosts") {
		t.Error(fault)
	}
}

// TestSilentTokenURL does not wait for a token for ever. A client tries both ways to
// name itself, where it does not know which one the server wants.
func TestSilentTokenURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := OAuth2{ID: "weir", Secret: secret, TokenURL: "http://tokens"}.tokenSource(&http.Client{Timeout: timeout, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		began := time.Now()
		if _, err := source.Token(); err == nil || time.Since(began) != 2*timeout {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// TestCertificates has a server that must be trusted, and that trusts one client.
func TestCertificates(t *testing.T) {
	server := httptest.NewUnstartedServer(text(200, matrix("")))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	der, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	for _, test := range []struct {
		name   string
		config Config
		want   string
	}{
		{"both", Config{CA: ca, Certificate: ca, Key: key}, ""},
		{"the name in the certificate", Config{CA: ca, Certificate: ca, Key: key, ServerName: "example.com"}, ""},
		{"another name", Config{CA: ca, Certificate: ca, Key: key, ServerName: "thanos"}, "cannot reach the source: tls: failed to verify certificate: x509: certificate is valid for example.com"},
		{"no CA", Config{}, "cannot reach the source: tls: failed to verify certificate: x509: certificate signed by unknown authority"},
		{"no certificate", Config{CA: ca}, "cannot reach the source: remote error: tls: certificate required"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, fault := dialled(t, server.URL, test.config, local).Query(t.Context(), noon, question)
			if test.want == "" && fault != nil || test.want != "" && (fault == nil || !strings.HasPrefix(fault.Why, test.want)) {
				t.Errorf("got %v, want %q", fault, test.want)
			}
		})
	}
	for _, c := range []Config{{CA: "no PEM"}, {Certificate: ca, Key: "no PEM"}, {Certificate: ca}} {
		c.URL, c.QueriesPerSecond = server.URL, 1
		if _, err := New(c, local); fmt.Sprint(err) != "the certificate, the key or the CA is not PEM that fits together" {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, test := range []struct {
		config Config
		want   string
	}{
		{Config{}, "url: must be http://HOST:PORT or https://HOST:PORT"},
		{Config{URL: "file:///etc/passwd"}, "url: must be http://HOST:PORT or https://HOST:PORT"},
		{Config{URL: "http://a:b@c"}, "url: must not have a user; use auth"},
		{Config{URL: "http://c"}, "queriesPerSecond: must be above 0"},
		{Config{URL: "http://c", QueriesPerSecond: 1, Headers: map[string]string{"authorization": "x"}}, "headers: authorization is set by Weir; use auth"},
		{Config{URL: "http://c", QueriesPerSecond: 1, Username: "a", Token: "b"}, "auth: a user name, a token and OAuth2 exclude each other"},
		{Config{URL: "http://c", QueriesPerSecond: 1, OAuth2: &OAuth2{TokenURL: "ftp://x"}}, "auth.tokenURL: must be http://HOST:PORT or https://HOST:PORT"},
	} {
		if _, err := New(test.config, AddressRules{}); fmt.Sprint(err) != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

// TestSecrets are not in what people read, even if a server sends them back.
func TestSecrets(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"status":"error","errorType":"bad_data","error":"not for %s %s"}`, secret, r.Header.Get("X-Key"))
	}
	for _, c := range []Config{{Username: "weir", Password: secret}, {Token: secret}, {Headers: map[string]string{"X-Key": secret}}} {
		_, fault := dialled(t, serve(t, http.HandlerFunc(echo)), c, local).Query(t.Context(), noon, question)
		if fault == nil || strings.Contains(fault.Why, secret) || !strings.Contains(fault.Why, "not for …") {
			t.Error(fault)
		}
	}
}

// FuzzAnswer has servers that answer anything.
func FuzzAnswer(f *testing.F) {
	for _, result := range []string{``, `{"metric":{"le":"1"},"values":[[1800000030,"1"],[1800000060.000,"NaN"]]}`, `{"metric":{},"histograms":[[1800000030,{}]]}`, `null`, `{"values":[[1e400,"-Inf"]]}`} {
		f.Add(matrix(result))
	}
	f.Add(`{"status":"error","errorType":"bad_data","error":"x"}`)
	f.Add(`{"status":"success","data":{"resultType":"string","result":[1,"x"]}}`)
	f.Fuzz(func(t *testing.T, body string) {
		client := piped(t, func(*http.Request) (*http.Response, error) { return respond(body), nil })
		series, fault := client.Query(t.Context(), noon, question)
		if fault != nil && (fault.Why == "" || len([]rune(fault.Why)) > 260) {
			t.Errorf("%q", fault.Why)
		}
		for _, s := range series {
			if len(s.Values) != question.Windows {
				t.Errorf("%d windows", len(s.Values))
			}
			for _, v := range s.Values {
				if v.Known && (math.IsNaN(v.Number) || math.IsInf(v.Number, 0)) {
					t.Errorf("%v is known", v.Number)
				}
			}
		}
	})
}

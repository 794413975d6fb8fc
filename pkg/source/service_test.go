// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// tickets is a Service that is on this machine, and may be.
var tickets = AddressRules{Hosts: []string{"tickets.shop.svc"}}

// requestTo asks a server that answers so.
func requestTo(t *testing.T, handler http.Handler) Request {
	t.Helper()
	return requestAt(t, strings.TrimPrefix(serve(t, handler), "http://"))
}

func requestAt(t *testing.T, address string) Request {
	t.Helper()
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return Request{Host: "tickets.shop.svc", Port: 80, Path: "/approved?by=weir", Endpoint: at, Window: noon}
}

// Whatever a Service answers, it is an answer of a bounded size, or one sentence.
func TestServiceAnswers(t *testing.T) {
	t.Parallel()
	redirected := atomic.Int32{}
	elsewhere := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected.Add(1) }))
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"200", text(200, `{"state":"open"}`), `200 {"state":"open"}`},
		{"204", text(204, ""), "204 "},
		{"500", text(500, "stack"), "500 stack"},
		{"no JSON", text(200, "\xff\x00"), "200 \xff\x00"},
		{"64 KiB", text(200, strings.Repeat("x", maxServiceBody)), "200 xxx"},
		{"one more", text(200, strings.Repeat("x", maxServiceBody+1)), "the answer is larger than 64 KiB"},
		{"10 MiB", text(200, strings.Repeat("x", 10<<20)), "the answer is larger than 64 KiB"},
		{"zipped", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "" {
				t.Errorf("asks for %s", r.Header.Get("Accept-Encoding"))
			}
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "\x1f\x8b")
		}, "200 \x1f\x8b"},
		{"10 MiB of headers", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 10<<20))
		}, "the answer is not that of an HTTP server"},
		{"without end", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 1<<10))
			}
		}, "the answer is larger than 64 KiB"},
		{"a redirect to another server", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere, http.StatusFound)
		}, "302 "},
		{"a redirect to metadata", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
		}, "307 "},
		{"no answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "the answer is not that of an HTTP server"},
		{"less than it says", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "x")
		}, "the answer is not that of an HTTP server"},
		{"what is asked", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Method, " ", r.Host, " ", r.RequestURI, " ", r.Header.Get("User-Agent"))
		}, "200 GET tickets.shop.svc:80 /approved?by=weir weir"},
	} {
		s := ServiceClient{Rules: tickets}
		answer, err := s.Get(t.Context(), requestTo(t, test.handler))
		got := fmt.Sprintf("%d %s", answer.Code, answer.Body)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, test.want) || len(answer.Body) > maxServiceBody {
			t.Errorf("%s: got %.100q, want %q", test.name, got, test.want)
		}
	}
	if redirected.Load() > 0 {
		t.Error("a redirect was followed")
	}
}

// A name of a Service does not open what is closed to all.
func TestServiceAddresses(t *testing.T) {
	t.Parallel()
	server := func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:443")} }
	for address, want := range map[string]string{
		"169.254.169.254:80":          "tickets.shop.svc is a link-local address",
		"[fe80::1]:80":                "tickets.shop.svc is a link-local address",
		"[::ffff:169.254.169.254]:80": "tickets.shop.svc is a link-local address",
		"100.100.100.200:80":          "tickets.shop.svc is a metadata service of a cloud",
		"[64:ff9b::a83f:8110]:80":     "tickets.shop.svc is a metadata service of a cloud",
		"[64:ff9b:1::a9fe:a9fe]:80":   "tickets.shop.svc is an address of a local translator",
		"127.0.0.1:80":                "tickets.shop.svc is on this machine",
		"[::1]:80":                    "tickets.shop.svc is on this machine",
		"0.0.0.0:80":                  "tickets.shop.svc is on this machine",
		"10.96.0.1:443":               "tickets.shop.svc is kube-apiserver",
	} {
		s := ServiceClient{Rules: AddressRules{Hosts: []string{"*.monitoring.svc"}, APIServers: server}}
		if _, err := s.Get(t.Context(), requestAt(t, address)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", address, err, want)
		}
	}
	s := ServiceClient{Rules: tickets}
	if _, err := s.Get(t.Context(), requestAt(t, closed(t))); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a closed port: %v", err)
	}
	r := requestAt(t, "10.0.0.1:80")
	r.Path = "http://%zz"
	if _, err := s.Get(t.Context(), r); err == nil || err.Error() != "the path is none of a URL" {
		t.Errorf("a path that is none: %v", err)
	}
}

// closed is an address where nobody listens.
func closed(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// Equal requests about one window are sent once, and what is kept is bounded.
func TestServiceOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	r := requestTo(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	s := ServiceClient{Rules: tickets}
	for window := range 3 {
		for range 3 {
			r.Window = noon.Add(time.Duration(window) * 30 * time.Second)
			if _, err := s.Get(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	if asked.Load() != 3 {
		t.Errorf("asked %d times about 3 windows", asked.Load())
	}
	for range 2 * maxAnswers {
		r.Window = r.Window.Add(time.Millisecond)
		r.Path += "x"
		s.cache(r.key(), cachedAnswer{window: r.Window})
	}
	r.Window = r.Window.Add(time.Hour)
	if s.cache(r.key(), cachedAnswer{window: r.Window}); len(s.answers) != 1 {
		t.Errorf("%d answers are kept after an hour", len(s.answers))
	}
}

// A Service that says nothing is left after ten seconds, and by those who stop waiting at once.
func TestServiceSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := ServiceClient{Rules: AddressRules{}}
		began := time.Now()
		s.Rules.APIServers = func() []netip.AddrPort { // asked before each connection
			<-time.After(time.Minute)
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Get(ctx, requestAt(t, "127.0.0.1:9")); err == nil || time.Since(began) > time.Second {
			t.Errorf("waited %s: %v", time.Since(began), err)
		}
		<-time.After(2 * time.Minute)
	})
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	version = "/apis/rollouts.kruise.io/v1beta1"
	// Root is the path of the pages, as weir-apiserver has it: they ask for all else
	// relative to it.
	Root = version + "/ui/"
	// agent is what decisions say of where a button was pressed.
	agent = "weir-dashboard"
	// mostBody is how large a request may be.
	mostBody = 1 << 20
)

// passed are the requests that go on to the cluster, by method: what the pages ask for, and
// nothing else, whatever the identity may do. Verbs are the server's to know.
var passed = map[string]*regexp.Regexp{
	http.MethodGet: regexp.MustCompile(`^` + version + `(/namespaces/[a-z0-9.-]+)?/rollouts$` +
		`|^` + version + `/namespaces/[a-z0-9.-]+/rollouts/[a-z0-9.-]+(/[a-z]+)?$` +
		`|^` + version + `/watch/namespaces/[a-z0-9.-]+/rollouts/[a-z0-9.-]+/tree$` +
		`|^/api/v1/namespaces/[a-z0-9.-]+/pods/[a-z0-9.-]+/log$`),
	http.MethodPost: regexp.MustCompile(`^` + version + `/namespaces/[a-z0-9.-]+/rollouts/[a-z0-9.-]+/[a-z]+$`),
}

// sent are the headers of a request that go on.
var sent = []string{"Accept", "Accept-Encoding", "Content-Type", "Content-Length"}

// returned are those of an answer that come back.
var returned = []string{"Content-Type", "Content-Length", "Content-Encoding", "Retry-After", "Warning", "Date"}

// Identity says as whom a request goes on.
type Identity interface {
	// Identify sets the headers of what is sent. Its error is what the browser is told.
	Identify(from *http.Request, to http.Header) error
}

// refusal is an answer to a browser.
type refusal struct {
	code    int
	message string
	// asks is what the browser is asked for.
	asks string
}

func (r refusal) Error() string { return r.message }

func refuse(w http.ResponseWriter, err error) {
	r := refusal{code: http.StatusBadGateway, message: err.Error()}
	errors.As(err, &r)
	if r.asks != "" {
		w.Header().Set("WWW-Authenticate", r.asks)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.code)
	status := metav1.Status{Status: metav1.StatusFailure, Code: int32(r.code), Message: r.message} //nolint:gosec // a code of HTTP
	status.Kind, status.APIVersion = "Status", "v1"
	_ = json.NewEncoder(w).Encode(status) // the connection is the browser's
}

// Proxy serves the pages, and passes on what they ask for to a cluster.
func Proxy(cluster *rest.Config, who Identity) (http.Handler, error) {
	transport, err := rest.TransportFor(cluster)
	if err != nil {
		return nil, fmt.Errorf("preparing to ask the cluster: %w", err)
	}
	target, _, err := rest.DefaultServerUrlFor(cluster)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the cluster: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle(Root, Pages(Root))
	mux.Handle("GET /{$}", http.RedirectHandler("."+Root, http.StatusFound))
	mux.Handle("/", passOn(target, transport, who))
	if s, ok := who.(*Sessions); ok {
		mux.Handle("POST "+Root+"session", s.signIn(target, transport))
		mux.Handle("DELETE "+Root+"session", s.signOut())
	}
	// The host is not rewritten before it comes here, so it can be compared.
	return http.NewCrossOriginProtection().Handler(withHeaders(mux)), nil
}

func withHeaders(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		inner.ServeHTTP(w, r)
	})
}

func passOn(target *url.URL, transport http.RoundTripper, who Identity) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // a watch is read as it comes
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = ""
			r.Out.Header = r.Out.Context().Value(identified{}).(http.Header)
		},
		ModifyResponse: func(answer *http.Response) error {
			kept := http.Header{}
			for _, name := range returned {
				if values := answer.Header.Values(name); len(values) > 0 {
					kept[name] = values
				}
			}
			answer.Header = kept
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			refuse(w, refusal{code: http.StatusBadGateway, message: "the cluster does not answer: " + err.Error()})
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		allowed := passed[r.Method]
		if allowed == nil || r.URL.RawPath != "" || !allowed.MatchString(r.URL.Path) {
			refuse(w, refusal{code: http.StatusForbidden, message: "the dashboard passes on what its pages ask for, and not " + r.Method + " " + r.URL.Path})
			return
		}
		to := http.Header{"User-Agent": {agent}}
		for _, name := range sent {
			if values := r.Header.Values(name); len(values) > 0 {
				to[name] = slices.Clone(values)
			}
		}
		if err := who.Identify(r, to); err != nil {
			refuse(w, err)
			return
		}
		proxy.ServeHTTP(w, r.WithContext(withIdentified(r.Context(), to)))
	})
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
)

const (
	apiPath = "/apis/rollouts.kruise.io/v1beta1"
	// recordsPath is the path of the version that serves RolloutHistories, which have the decisions of completed releases.
	recordsPath = "/apis/rollouts.kruise.io/v1alpha1"
	// Root is the path of the pages, which is the same in weir-apiserver. The pages use URLs relative to
	// it.
	Root = apiPath + "/ui/"
	// userAgent is the user agent that decisions record.
	userAgent = "weir-dashboard"
	// maxBodyBytes limits the size of a request body.
	maxBodyBytes = 1 << 20
)

// forwardedRequests are the requests that the proxy forwards, by method. Others are refused even if the user may send
// them. The server decides which verbs exist.
var forwardedRequests = map[string]*regexp.Regexp{
	http.MethodGet: regexp.MustCompile(`^` + apiPath + `(/namespaces/[a-z0-9.-]+)?/rollouts$` +
		`|^` + apiPath + `/namespaces/[a-z0-9.-]+/rollouts/[a-z0-9.-]+(/[a-z]+)?$` +
		`|^` + apiPath + `/watch/namespaces/[a-z0-9.-]+/rollouts/[a-z0-9.-]+/tree$` +
		`|^` + recordsPath + `(/namespaces/[a-z0-9.-]+)?/rollouthistories$` +
		`|^/api/v1/namespaces/[a-z0-9.-]+/pods/[a-z0-9.-]+/log$|` + workloadPath),
	http.MethodPost: regexp.MustCompile(`^` + apiPath + `/namespaces/[a-z0-9.-]+/rollouts/[a-z0-9.-]+/[a-z]+$`),
	// The pages set the template of an earlier release again, with the permission of the user.
	http.MethodPatch: regexp.MustCompile(workloadPath),
}

// workloadPath matches the paths of the workloads that a Rollout can release.
const workloadPath = `^/apis/apps/v1/namespaces/[a-z0-9.-]+/(deployments|statefulsets|daemonsets)/[a-z0-9.-]+$` +
	`|^/apis/apps\.kruise\.io/v1(alpha1|beta1)/namespaces/[a-z0-9.-]+/(clonesets|statefulsets|daemonsets)/[a-z0-9.-]+$`

// forwardedRequestHeaders are the request headers that the proxy forwards.
var forwardedRequestHeaders = []string{"Accept", "Accept-Encoding", "Content-Type", "Content-Length"}

// forwardedResponseHeaders are the response headers that the proxy forwards.
var forwardedResponseHeaders = []string{"Content-Type", "Content-Length", "Content-Encoding", "Retry-After", "Warning", "Date"}

// Identity determines the user of a forwarded request.
type Identity interface {
	// Identify sets the headers that authenticate the forwarded request. Its error is the response for the
	// browser.
	Identify(from *http.Request, to http.Header) error
}

// errorResponse is an error response for a browser.
type errorResponse struct {
	code    int
	message string
	// challenge is the value of the header WWW-Authenticate.
	challenge string
}

func (r errorResponse) Error() string { return r.message }

func writeError(w http.ResponseWriter, err error) {
	r := errorResponse{code: http.StatusBadGateway, message: err.Error()}
	errors.As(err, &r)
	if r.challenge != "" {
		w.Header().Set("WWW-Authenticate", r.challenge)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.code)
	status := metav1.Status{Status: metav1.StatusFailure, Code: int32(r.code), Message: r.message} //nolint:gosec // a code of HTTP
	status.Kind, status.APIVersion = "Status", "v1"
	_ = json.NewEncoder(w).Encode(status) // an error means that the browser closed the connection
}

// NewProxy serves the pages, and forwards their requests to a cluster.
func NewProxy(cluster *rest.Config, who Identity, about About) (http.Handler, error) {
	transport, err := rest.TransportFor(cluster)
	if err != nil {
		return nil, fmt.Errorf("preparing to ask the cluster: %w", err)
	}
	target, _, err := rest.DefaultServerUrlFor(cluster)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the cluster: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle(Root, Pages(Root, about))
	mux.Handle("GET /{$}", http.RedirectHandler("."+Root, http.StatusFound))
	mux.Handle("/", newForwarder(target, transport, who))
	if s, ok := who.(*Sessions); ok {
		mux.Handle("POST "+Root+"session", s.signIn(target, transport))
		mux.Handle("DELETE "+Root+"session", s.signOut())
	}
	// The protection can compare the host, because nothing in front of this handler has rewritten it.
	return http.NewCrossOriginProtection().Handler(withHeaders(mux)), nil
}

func withHeaders(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range responseHeaders {
			w.Header().Set(name, value)
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		inner.ServeHTTP(w, r)
	})
}

// checkTemplatePatch returns an error unless a request is a merge patch of nothing but the pod template of a workload.
// It leaves the body unread for the forwarder.
func checkTemplatePatch(r *http.Request) error {
	refusal := errorResponse{code: http.StatusForbidden, message: "the dashboard changes only the pod template of a workload: send a merge patch of spec.template"}
	if r.Header.Get("Content-Type") != string(types.MergePatchType) {
		return refusal
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return errorResponse{code: http.StatusRequestEntityTooLarge, message: fmt.Sprintf("reading the patch: %v", err)}
	}
	var patch map[string]map[string]map[string]any
	if err := json.Unmarshal(body, &patch); err != nil || len(patch) != 1 || len(patch["spec"]) != 1 || patch["spec"]["template"] == nil {
		return refusal
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

func newForwarder(target *url.URL, transport http.RoundTripper, who Identity) http.Handler {
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // a watch must be flushed after each event
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = ""
			r.Out.Header = r.Out.Context().Value(forwardedHeadersKey{}).(http.Header)
		},
		ModifyResponse: func(answer *http.Response) error {
			kept := http.Header{}
			for _, name := range forwardedResponseHeaders {
				if values := answer.Header.Values(name); len(values) > 0 {
					kept[name] = values
				}
			}
			answer.Header = kept
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			writeError(w, errorResponse{code: http.StatusBadGateway, message: "the cluster does not answer: " + err.Error()})
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		allowed := forwardedRequests[r.Method]
		if allowed == nil || r.URL.RawPath != "" || !allowed.MatchString(r.URL.Path) {
			writeError(w, errorResponse{code: http.StatusForbidden, message: "the dashboard forwards only the requests of its pages, and not " + r.Method + " " + r.URL.Path})
			return
		}
		if r.Method == http.MethodPatch {
			if err := checkTemplatePatch(r); err != nil {
				writeError(w, err)
				return
			}
		}
		to := http.Header{"User-Agent": {userAgent}}
		for _, name := range forwardedRequestHeaders {
			if values := r.Header.Values(name); len(values) > 0 {
				to[name] = slices.Clone(values)
			}
		}
		if err := who.Identify(r, to); err != nil {
			writeError(w, err)
			return
		}
		proxy.ServeHTTP(w, r.WithContext(withForwardedHeaders(r.Context(), to)))
	})
}

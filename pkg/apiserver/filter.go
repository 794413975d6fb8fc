// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bufio"
	"bytes"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
	"github.com/weir-rollouts/weir/pkg/apis/rollouts/v1beta1"
	"github.com/weir-rollouts/weir/pkg/dashboard"
	"github.com/weir-rollouts/weir/pkg/registry/rollouts/rollout"
)

// healthPaths are the paths that clients may read without authentication.
var healthPaths = []string{"/healthz", "/livez", "/readyz"}

// anonymousHealthAuthenticator refuses anonymous requests except for health checks.
type anonymousHealthAuthenticator struct{ inner authenticator.Request }

func (a anonymousHealthAuthenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := a.inner.AuthenticateRequest(r)
	if ok && response.User.GetName() == user.Anonymous && !slices.Contains(healthPaths, r.URL.Path) {
		return nil, false, err
	}
	return response, ok, err
}

// prepareRequests prepares authorized requests: it records the user agent, and adds the body of a verb that the
// client left out. It refuses bodies whose fields cannot be decoded.
func prepareRequests(api http.Handler, fields fieldCheck, codecs runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(rollout.WithUserAgent(r.Context(), r.UserAgent()))
		if isVerbRequest(r) {
			if err := checkVerb(r, fillBody(r)); err != nil {
				responsewriters.ErrorNegotiated(err, codecs, rollouts.SchemeGroupVersion, w, r)
				return
			}
			if isDecision(r) {
				r.URL = withStrictValidation(r.URL)
			}
		}
		if err := fields.checkRequest(r); err != nil {
			responsewriters.ErrorNegotiated(err, codecs, rollouts.SchemeGroupVersion, w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// serveDashboard serves the dashboard to authorized requests, unless it is disabled. The dashboard has a path
// within the API group, because the aggregator forwards no other paths.
func serveDashboard(api http.Handler, on bool) http.Handler {
	if !on {
		return api
	}
	root := "/apis/" + v1beta1.SchemeGroupVersion.String() + "/ui"
	pages := dashboard.Pages(root + "/")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rest, found := strings.CutPrefix(r.URL.Path, root); found && (rest == "" || rest[0] == '/') {
			pages.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

func isVerbRequest(r *http.Request) bool {
	info, ok := genericapirequest.RequestInfoFrom(r.Context())
	return ok && info.IsResourceRequest && info.APIGroup == rollouts.GroupName && r.Method == http.MethodPost &&
		info.Resource == "rollouts" && info.Subresource != ""
}

// isDecision reports whether a request uses a verb that decides, unlike plan, which only reads.
func isDecision(r *http.Request) bool {
	info, ok := genericapirequest.RequestInfoFrom(r.Context())
	return ok && slices.Contains(rollout.VerbNames(), info.Subresource)
}

// fillBody accepts bodies of verbs as command lines send them:
//
//	curl -X POST …/promote
//	curl -d '{"reason":"…"}' …/promote        (curl calls that a form)
//	kubectl create --raw …/promote -f /dev/null
//
// It returns the reader of the body.
func fillBody(r *http.Request) *bufio.Reader {
	body := bufio.NewReaderSize(r.Body, maxPeek)
	if _, err := body.Peek(1); err == io.EOF {
		empty := []byte("{}")
		body = bufio.NewReader(bytes.NewReader(empty))
		r.Body = io.NopCloser(body)
		r.ContentLength = int64(len(empty))
		r.Header.Set("Content-Type", runtime.ContentTypeJSON)
		return body
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && media == "application/x-www-form-urlencoded" {
		r.Header.Set("Content-Type", runtime.ContentTypeJSON)
	}
	return body
}

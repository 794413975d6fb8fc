// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// preflightedTypes are the media types, of those that this server reads, that a
// browser sends to another site after a preflight request only.
var preflightedTypes = []string{"application/json", "application/yaml"}

var errCrossSite = errors.New("a page of another site sent it, with the credentials of whoever looks at that page; " +
	"programs leave out the headers Origin and Sec-Fetch-Site, and pages that an administrator trusts send Content-Type: application/json")

// withoutCrossSite refuses what a page of another site sends through a proxy
// that adds credentials, such as kubectl proxy. A browser sends a preflight request,
// which is refused here, before anything but a POST of some types, which browsers
// add to, or a WebSocket, which it lets the page read as well.
func withoutCrossSite(api http.Handler, codecs runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !crossSite(r.Header) || !sentWithoutPreflight(r) {
			api.ServeHTTP(w, r)
			return
		}
		var resource, name string
		if info, ok := genericapirequest.RequestInfoFrom(r.Context()); ok {
			resource, name = info.Resource, info.Name
		}
		err := apierrors.NewForbidden(rollouts.Resource(resource), name, errCrossSite)
		responsewriters.ErrorNegotiated(err, codecs, rollouts.SchemeGroupVersion, w, r)
	})
}

// crossSite reports whether a page of another site sends the request. Older
// browsers name the origin only, and both proxies on the way rewrite the host
// that it would have to equal; what runs on this machine is trusted then.
func crossSite(h http.Header) bool {
	if sites := h.Values("Sec-Fetch-Site"); len(sites) > 0 {
		return slices.ContainsFunc(sites, func(site string) bool { return site != "same-origin" && site != "none" })
	}
	from := h.Values("Origin")
	if len(from) == 0 {
		from = h.Values("Referer") // some sent a form without an origin
	}
	return slices.ContainsFunc(from, func(page string) bool { return !loopback(page) })
}

// loopback reports whether a page comes from this machine.
func loopback(page string) bool {
	u, err := url.Parse(page)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// sentWithoutPreflight reports whether a browser might send the request without a
// preflight request.
func sentWithoutPreflight(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return httpstream.IsUpgradeRequest(r)
	}
	types := r.Header.Values("Content-Type")
	return len(types) == 0 || slices.ContainsFunc(types, func(value string) bool {
		media, _, err := mime.ParseMediaType(value)
		return err != nil || !slices.Contains(preflightedTypes, media)
	})
}

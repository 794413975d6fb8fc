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

// preflightedTypes are the media types of this server for which a browser sends a preflight request first.
var preflightedTypes = []string{"application/json", "application/yaml"}

var errCrossSite = errors.New("a page of another site sent it, with the credentials of whoever looks at that page; " +
	"programs leave out the headers Origin and Sec-Fetch-Site, and pages that an administrator trusts send Content-Type: application/json")

// refuseCrossSite refuses requests that a page of another site sends through a proxy that adds
// credentials, such as kubectl proxy. Browsers send a preflight request, which this server refuses, before
// most requests. The exceptions are a POST with some media types, and a WebSocket.
func refuseCrossSite(api http.Handler, codecs runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isCrossSite(r.Header) || !mayLackPreflight(r) {
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

// isCrossSite reports whether a page of another site sent the request. Older browsers send only the origin.
// The proxies on the way rewrite the host with which the origin should be compared. Therefore only origins
// on this machine are trusted then.
func isCrossSite(h http.Header) bool {
	if sites := h.Values("Sec-Fetch-Site"); len(sites) > 0 {
		return slices.ContainsFunc(sites, func(site string) bool { return site != "same-origin" && site != "none" })
	}
	from := h.Values("Origin")
	if len(from) == 0 {
		from = h.Values("Referer") // some browsers send a form without an origin
	}
	return slices.ContainsFunc(from, func(page string) bool { return !isLoopbackPage(page) })
}

// isLoopbackPage reports whether a page comes from this machine.
func isLoopbackPage(page string) bool {
	u, err := url.Parse(page)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// mayLackPreflight reports whether a browser may send the request without a preflight request.
func mayLackPreflight(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return httpstream.IsUpgradeRequest(r)
	}
	types := r.Header.Values("Content-Type")
	return len(types) == 0 || slices.ContainsFunc(types, func(value string) bool {
		media, _, err := mime.ParseMediaType(value)
		return err != nil || !slices.Contains(preflightedTypes, media)
	})
}

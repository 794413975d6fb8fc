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

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// plainTypes are the media types that a page may send to another site without
// asking first.
var plainTypes = []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"}

var errCrossSite = errors.New("a page of another site sent it, with the credentials of whoever looks at that page; " +
	"programs leave out the headers Origin and Sec-Fetch-Site, and pages that an administrator trusts send Content-Type: application/json")

// withoutCrossSite refuses what a page of another site sends through a proxy
// that adds credentials, such as kubectl proxy. A browser asks before anything
// but a POST of a plain type, and nobody here says yes.
func withoutCrossSite(api http.Handler, codecs runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !crossSite(r.Header) || !unasked(r.Header) {
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
	return slices.ContainsFunc(h.Values("Origin"), func(origin string) bool { return !loopback(origin) })
}

// loopback reports whether the origin is of this machine.
func loopback(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// unasked reports whether a page may send the type without asking first. One
// that cannot be read counts as such.
func unasked(h http.Header) bool {
	types := h.Values("Content-Type")
	return len(types) == 0 || slices.ContainsFunc(types, func(value string) bool {
		media, _, err := mime.ParseMediaType(value)
		return err != nil || slices.Contains(plainTypes, media)
	})
}

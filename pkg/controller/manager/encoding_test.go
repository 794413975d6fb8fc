// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// TestUncompressed checks that requests ask for uncompressed responses, and that the caller's
// request is not changed.
func TestUncompressed(t *testing.T) {
	t.Parallel()
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r.Header.Get("Accept-Encoding") }))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	config.Wrap(withoutCompression)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if asked != "identity" || len(request.Header) > 0 {
		t.Errorf("it asks for %q, and the request has %v", asked, request.Header)
	}
}

// TestProfiles checks that profiles are served only if they are enabled.
func TestProfiles(t *testing.T) {
	t.Parallel()
	if len(profilingHandlers(false)) > 0 || profilingHandlers(true)["/debug/pprof/profile"] == nil {
		t.Errorf("pages: %v and %v", profilingHandlers(false), profilingHandlers(true))
	}
}

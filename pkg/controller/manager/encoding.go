// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net/http"

	"k8s.io/apimachinery/pkg/util/net"
)

func withoutCompression(rt http.RoundTripper) http.RoundTripper { return uncompressed{rt} }

// uncompressed requests uncompressed responses, as the controllers of Kubernetes do: within a
// cluster, compression costs more than transfer. The header is set explicitly, because without it
// kube-apiserver would request compression from weir-apiserver.
type uncompressed struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (u uncompressed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = net.CloneRequest(r)
	r.Header.Set("Accept-Encoding", "identity")
	return u.RoundTripper.RoundTrip(r)
}

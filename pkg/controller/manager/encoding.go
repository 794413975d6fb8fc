// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net/http"

	"k8s.io/apimachinery/pkg/util/net"
)

func plainly(rt http.RoundTripper) http.RoundTripper { return uncompressed{rt} }

// uncompressed asks for answers as they are, as the controllers of Kubernetes do:
// within a cluster compressing costs more than sending. Merely not asking for
// compression does not do, since kube-apiserver would then ask weir-apiserver for it.
type uncompressed struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (u uncompressed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = net.CloneRequest(r)
	r.Header.Set("Accept-Encoding", "identity")
	return u.RoundTripper.RoundTrip(r)
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
)

// If many reviews with large objects of one namespace are in flight, reviews about other namespaces from
// the same kube-apiserver are still answered.
func TestReviewsAreSharedByNamespace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &sender{T: t, h: &Handler{Rollouts: named{}}, answers: make(chan int, 100)}
		const from = "10.1.0.1"
		head := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","kind":{"group":"apps","version":"v1","kind":"Deployment"},"name":"web","namespace":"greedy",`
		for range 2 * maxAddressBytes / maxBodyBytes {
			s.send(from, 0)
			w := s.open[len(s.open)-1]
			for _, part := range []string{head[:50], head[50:], strings.Repeat(" ", maxBodyBytes-len(head))} {
				if _, err := fmt.Fprint(w, part); err != nil {
					break // it is refused already
				}
			}
			synctest.Wait()
		}
		if n := s.h.bodies.total; n > maxNamespaceBytes+maxBodyBytes {
			t.Errorf("%d bytes of one namespace are in flight, want %d at most", n, maxNamespaceBytes)
		}
		review := marshal(t, reviewOf(t, sent{as: "alice", old: deployment(), update: deployment(image("v2"))}))
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(review))
		r.RemoteAddr = from + ":443"
		if s.h.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("a review about another namespace is answered with %d: %s", w.Code, w.Body)
		}
		if got := s.end(); got[http.StatusServiceUnavailable] == 0 {
			t.Errorf("answered with %v, want that some are refused", got)
		}
	})
}

// TestNamespaceIsNoticed reads a review in parts of every size.
func TestNamespaceIsNoticed(t *testing.T) {
	t.Parallel()
	review := string(marshal(t, reviewOf(t, sent{as: "alice", old: deployment(), update: deployment(image("v2"))})))
	for size := 1; size < len(review); size += 7 {
		b := &body{address: "a", limits: &inFlight{byClient: map[string]int64{}}}
		for rest := review; rest != ""; {
			n := min(size, len(rest))
			b.findNamespace([]byte(rest[:n]))
			b.limits.countBytes(b, int64(n))
			rest = rest[n:]
		}
		if b.namespaceKey != "a\x00ns" || b.limits.byClient[b.namespaceKey] != b.size {
			t.Fatalf("in parts of %d bytes the share is %q with %d of %d bytes", size, b.namespaceKey, b.limits.byClient[b.namespaceKey], b.size)
		}
		b.limits.release(b)
		if len(b.limits.byClient) > 0 {
			t.Fatalf("%v is left", b.limits.byClient)
		}
	}
	for _, odd := range []string{"", "{", `{"request":{"namespace":`, strings.Repeat(" ", 2*maxHeadBytes) + `"namespace":"ns"`} {
		b := &body{address: "a", limits: &inFlight{}}
		if b.findNamespace([]byte(odd)); b.namespaceKey != "" || len(b.head) > maxHeadBytes {
			t.Errorf("%.20q has the share %q", odd, b.namespaceKey)
		}
	}
}

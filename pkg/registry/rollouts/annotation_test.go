// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A client that can only change objects can decide with an annotation if it has the permission for the
// verb. The annotation names a revision, acts once, is never stored, and does not break later syncs.
func TestDecideAnnotation(t *testing.T) {
	t.Parallel()
	// digest is the digest of the released template. If decide names only the digest, the test writes it to
	// the status.
	digest := strings.Repeat("ab", 32)
	for name, tc := range map[string]struct {
		as      string
		decide  []string
		code    int
		message string
		want    []string
	}{
		"a promotion":                   {alice, []string{"promote v2 1 @1"}, http.StatusOK, "", []string{"promote alice annotation @1"}},
		"in full":                       {alice, []string{"promote v2 full @1"}, http.StatusOK, "", []string{"promote alice annotation @1"}},
		"a pause, synced again":         {alice, []string{"pause v2 @1", "pause v2 @1"}, http.StatusOK, "", []string{"pause alice annotation @1"}},
		"a jump":                        {alice, []string{"jump v2 2 @1"}, http.StatusOK, "", []string{"jump alice annotation @1"}},
		"a jump out of the plan":        {alice, []string{"jump v2 9 @1"}, http.StatusUnprocessableEntity, "decide", nil},
		"another step":                  {alice, []string{"promote v2 2 @1"}, http.StatusOK, "is ignored", nil},
		"another release":               {alice, []string{"promote v1 1 @1"}, http.StatusOK, "it is about revision v1", nil},
		"another release, no right":     {dave, []string{"promote v1 1 @1"}, http.StatusOK, "it is about revision v1", nil},
		"no right":                      {dave, []string{"promote v2 1 @1"}, http.StatusForbidden, "create rollouts/promote", nil},
		"no such verb":                  {alice, []string{"destroy v2 @1"}, http.StatusUnprocessableEntity, "VERB DIGEST", nil},
		"no ID":                         {alice, []string{"promote v2 1"}, http.StatusUnprocessableEntity, "VERB DIGEST", nil},
		"full, of what can not be full": {alice, []string{"pause v2 full @1"}, http.StatusUnprocessableEntity, "full is for promote", nil},
		"by digest":                     {alice, []string{digest, "promote " + digest + " 1 @1"}, http.StatusOK, "", []string{"promote alice annotation @1"}},
		"another digest":                {alice, []string{digest, "promote " + strings.Repeat("c", 64) + " 1 @1"}, http.StatusOK, "which is not released now", nil},
		"a short hash, of a digest":     {alice, []string{digest, "promote v2 1 @1"}, http.StatusUnprocessableEntity, "write its digest: promote " + digest + " 1 @1", nil},
		"the label of its pods":         {alice, []string{digest, "abort hash-of-v2 @1"}, http.StatusUnprocessableEntity, "write its digest: abort " + digest + " @1", nil},
		"a short hash, decided before":  {alice, []string{"pause v2 @1", digest, "pause v2 @1"}, http.StatusOK, "", []string{"pause alice annotation @1"}},
		"a short hash, of another":      {alice, []string{digest, "promote v1 1 @1"}, http.StatusOK, "it is about revision v1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			releasing(t, ns, "web")
			var last answer
			for _, text := range tc.decide {
				if text == digest {
					r := get(t, ns, "web")
					r.Status.Canary.UpdateTemplate = digest
					call(t, request{as: controller, method: http.MethodPut, path: one(v1beta1Path, ns, "web") + "/status", body: r}).must(t, http.StatusOK)
					continue
				}
				last = call(t, request{as: tc.as, method: http.MethodPatch, path: one(v1beta1Path, ns, "web"),
					body:    map[string]any{"metadata": map[string]any{"annotations": map[string]any{"rollouts.kruise.io/decide": text}}},
					headers: map[string]string{"Content-Type": "application/merge-patch+json"}})
			}
			last.must(t, tc.code)
			said := strings.Join(last.warnings, " ") + last.status().Message
			if !strings.Contains(said, tc.message) {
				t.Errorf("the client is told %q, want %q", said, tc.message)
			}
			r := get(t, ns, "web")
			if _, stored := r.Annotations["rollouts.kruise.io/decide"]; stored {
				t.Error("the annotation is stored")
			}
			var got []string
			for _, d := range r.Status.Decisions {
				got = append(got, strings.Join([]string{string(d.Verb), d.User, string(d.Via), d.RequestID}, " "))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decisions (-want +got):\n%s", diff)
			}
		})
	}
}

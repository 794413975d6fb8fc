// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mostAllocated is the maximum memory that a review may allocate.
const mostAllocated = 64 << 20

// A review of 1 MiB does not take hundreds of MiB. The test does not run in parallel, because it measures
// the allocations of the whole process.
func TestReviewsAreSmall(t *testing.T) { //nolint:paralleltest // see above
	fill := func(before, element, after string) string {
		n := (maxBodyBytes - 4096) / len(element)
		return before + strings.TrimSuffix(strings.Repeat(element, n), ",") + after
	}
	pod := func(list, element string) string {
		return fill(`{"spec":{"template":{"spec":{"`+list+`":[`, element, `]}}}}`)
	}
	for name, object := range map[string]string{
		"containers":          pod("containers", "{},"),
		"some containers":     `{"spec":{"template":{"spec":{"containers":[{}` + strings.Repeat(",{}", maxParts) + `]}}}}`,
		"containers of null":  pod("containers", "null,"),
		"init containers":     pod("initContainers", "{},"),
		"volumes":             pod("volumes", "{},"),
		"spread":              pod("topologySpreadConstraints", "{},"),
		"twice, then none":    strings.TrimSuffix(pod("containers", "{},"), "}}}}") + `,"containers":[]}}}}`,
		"in capitals":         pod("CONTAINERS", "{},"),
		"claims":              fill(`{"spec":{"volumeClaimTemplates":[`, "{},", `]}}`),
		"writers of fields":   fill(`{"spec":{"template":{"metadata":{"managedFields":[`, "{},", `]}}}}`),
		"writers in capitals": fill(`{"metadata":{"MANAGEDFIELDS":[`, "{},", `]}}`),
		"conditions":          fill(`{"status":{"conditions":[`, "{},", `]}}`),
		"limits of resources": fill(`{"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{`, `"a":"1",`, `}}}]}}}}`),
		"a lot of words":      fill(`{"spec":{"template":{"spec":{"containers":[{"args":[`, `"",`, `]}]}}}}`),
	} {
		for _, named := range []bool{false, true} {
			body := []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"UPDATE",` +
				`"kind":{"group":"apps","version":"v1","kind":"StatefulSet"},"oldObject":{},"object":` + object + `}}`)
			if named {
				body = bytes.Replace(body, []byte(`"oldObject":{},"object":`), []byte(`"object":{},"oldObject":`), 1)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w := httptest.NewRecorder()
			(&Handler{Rollouts: samples["StatefulSet"].in(false), Controller: weir}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body)))
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > mostAllocated {
				t.Errorf("%s: %d bytes are allocated for %d, want %d at most", name, n, len(body), mostAllocated)
			}
			if w.Code != http.StatusInternalServerError {
				t.Errorf("%s: answered with %d, want that it is left to the failure policy", name, w.Code)
			}
		}
	}
}

// Lists and fields are counted regardless of the strings in them.
func TestMeasure(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]jsonSize{
		`{}`:                             {},
		`[]`:                             {},
		`[ ]`:                            {},
		`[null, 1,"a" ,{},[]]`:           {elements: 5},
		`{"a":[{"b":[1,2]}],"c":"[,:]"}`: {elements: 3, keys: 3},
		`{"a\"[":"\\","b":[[],[[]]]}`:    {elements: 3, keys: 2},
	} {
		if !json.Valid([]byte(text)) {
			t.Fatalf("%s is no JSON", text)
		}
		if diff := cmp.Diff(want, measureJSON([]byte(text), 0), cmp.AllowUnexported(jsonSize{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if n := measureJSON([]byte(`[[1,2],{"a":[1]},3]`), 1).elements; n != 3 {
		t.Errorf("%d elements of the outer list, want 3", n)
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// An update is judged even if many managers have applied many fields of the workload.
func TestManagedFieldsDoNotCount(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"many": 600, "a MiB of each": 5000} {
		old, update := deployment(), deployment(image("v2"))
		for i := range size {
			old.ManagedFields = append(old.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: fmt.Sprintf("m-%d", i), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + strings.Repeat("x", 100) + `":{}}}}`),
			})
		}
		update.ManagedFields = old.ManagedFields
		request := sent{as: "alice", old: old, update: update}
		if got, refused := answered(t, &Handler{Rollouts: samples["Deployment"].in(false), Controller: weir}, request); refused != "" || got.GetAnnotations()[rollouts.AnnotationInProgress] == "" {
			t.Errorf("%s: it is not held: %s", name, refused)
		}
	}
}

// Only the managed fields of both objects are omitted, and nothing that looks similar.
func TestWithoutManaged(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"request":{"object":{"metadata":{"managedFields":[{"a":"]\"]"},[1]],"name":"n"}}}}`:                         `{"request":{"object":{"metadata":{"managedFields":[],"name":"n"}}}}`,
		`{"request" : {"x":[{}],"oldObject":{"spec":{},"metadata":{"name":"n", "managedFields" : [ 1 ]}},"uid":"u"}}`: `{"request" : {"x":[{}],"oldObject":{"spec":{},"metadata":{"name":"n", "managedFields" : []}},"uid":"u"}}`,
		`{"request":{"object":{"metadata":{"managedFields":[1],"managedFields":[2]}},"oldObject":{"metadata":{"managedFields":[3]}}}}`: `{"request":{"object":{"metadata":{"managedFields":[],"managedFields":[]}},` +
			`"oldObject":{"metadata":{"managedFields":[]}}}}`,
		`{"request":{"object":{"metadata":{"annotations":{"managedFields":[1]}}}}}`:                    "",
		`{"request":{"object":{"metadata":{"managedFields":"[1]","other":[1]}}}}`:                      "",
		`{"request":{"object":{"metadata":{"managed\u0046ields":[1]}}}}`:                               "",
		`{"request":{"object":{"spec":{"template":{"metadata":{"managedFields":[1]}}}}}}`:              "",
		`{"request":{"object":{"spec":{"managedFields":[1]},"metadata":{}}}}`:                          "",
		`{"request":{"options":{"metadata":{"managedFields":[1]}}}}`:                                   "",
		`{"request":[{"object":{"metadata":{"managedFields":[1]}}}]}`:                                  "",
		`{"object":{"metadata":{"managedFields":[1]}},"metadata":{"managedFields":[1]}}`:               "",
		`{"request":{"object":{"metadata":{"managedFields":{"request":[1]}}}}}`:                        "",
		`{"request":{"object":{"metadata":"x","managedFields":[1]},"metadata":{"managedFields":[1]}}}`: "",
	} {
		if want == "" {
			want = text
		}
		for _, from := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
			got, err := io.ReadAll(&managedFieldsFilter{reader: from})
			if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		}
	}
}

// Omitted bytes occupy no memory, but they are limited.
func TestManagedFieldsEnd(t *testing.T) {
	t.Parallel()
	body := io.MultiReader(strings.NewReader(`{"request":{"object":{"metadata":{"managedFields":[`), io.LimitReader(zeros{}, 2*maxSentBytes))
	w := httptest.NewRecorder()
	(&Handler{Controller: weir}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, body))
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("answered with %d, want %d", w.Code, http.StatusRequestEntityTooLarge)
	}
}

// zeros is an endless list of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, strings.Repeat("0,", len(p)/2+1)), nil }

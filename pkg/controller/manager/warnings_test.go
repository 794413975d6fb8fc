// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/go-logr/logr/funcr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// TestWarnings checks that a repeated warning is logged once, and that another warning is logged,
// too.
func TestWarnings(t *testing.T) {
	text := "one"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Warning", `299 - `+strconv.Quote(text))
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, WarningHandlerWithContext: &warningLogger{}}
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	var logged int
	ctx := logf.IntoContext(t.Context(), funcr.New(func(string, string) { logged++ }, funcr.Options{}))
	for _, next := range []string{"one", "one", "one", "two", "one"} {
		text = next
		if err := client.Get().AbsPath("/").Do(ctx).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if logged != 2 {
		t.Errorf("%d warnings logged, want 2", logged)
	}
	w := &warningLogger{}
	for i := range 3 * maxWarnings {
		w.isNew(strconv.Itoa(i))
	}
	if len(w.logged) > maxWarnings {
		t.Errorf("%d warnings are kept", len(w.logged))
	}
}

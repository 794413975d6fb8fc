// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "/apis/rollouts.kruise.io/v1beta1/ui/"

func ask(method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Pages(root, About{Version: "v0.9.0", Cluster: "blue"}).ServeHTTP(w, r)
	return w
}

// The pages show which cluster they change.
func TestAbout(t *testing.T) {
	t.Parallel()
	if got, want := ask("GET", root+"about.json").Body.String(), `{"version":"v0.9.0","cluster":"blue"}`; got != want {
		t.Errorf("about.json is %s, want %s", got, want)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		method, path string
		code         int
		media        string
		encoding     string
	}{
		"the page":               {"GET", root, 200, "text/html; charset=utf-8", ""},
		"its name":               {"GET", root + "index.html", 200, "text/html; charset=utf-8", ""},
		"its head":               {"HEAD", root, 200, "text/html; charset=utf-8", ""},
		"the program":            {"GET", root + "app.js", 200, "text/javascript; charset=utf-8", "gzip"},
		"the style":              {"GET", root + "app.css", 200, "text/css; charset=utf-8", "gzip"},
		"the icon":               {"GET", root + "icon.svg", 200, "image/svg+xml", "gzip"},
		"the program itself":     {"GET", root + "about.json", 200, "application/json", "gzip"},
		"no such file":           {"GET", root + "app.js.map", 404, "text/plain; charset=utf-8", ""},
		"a file above":           {"GET", root + "../pages.go", 404, "text/plain; charset=utf-8", ""},
		"without the last slash": {"GET", strings.TrimSuffix(root, "/"), 404, "text/plain; charset=utf-8", ""},
		"a write":                {"POST", root, 405, "text/plain; charset=utf-8", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ask(tc.method, tc.path, "Accept-Encoding", "gzip, br")
			h := w.Header()
			got := []any{w.Code, h.Get("Content-Type"), h.Get("Content-Encoding")}
			if diff := cmp.Diff([]any{tc.code, tc.media, tc.encoding}, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			for name, value := range responseHeaders {
				if h.Get(name) != value {
					t.Errorf("%s is %q, want %q", name, h.Get(name), value)
				}
			}
		})
	}
}

// A browser can ask whether a cached page has changed, in either encoding.
func TestTags(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, encoding := range []string{"gzip", "identity"} {
		first := ask("GET", root+"app.js", "Accept-Encoding", encoding)
		tag := first.Header().Get("ETag")
		if seen[tag] || tag == "" {
			t.Errorf("tag %q of %s is empty, or another one's", tag, encoding)
		}
		seen[tag] = true
		if again := ask("GET", root+"app.js", "Accept-Encoding", encoding, "If-None-Match", tag); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("answer %d of %d bytes to a browser that has it", again.Code, again.Body.Len())
		}
	}
	if other := ask("GET", root+"app.js", "If-None-Match", `"other"`); other.Code != http.StatusOK {
		t.Errorf("answer %d to a browser that has another one", other.Code)
	}
}

// The pages are small enough for a slow network.
func TestSize(t *testing.T) {
	t.Parallel()
	const most = 150 << 10
	pages, err := readPages()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, p := range pages {
		sum += len(p.compressed)
	}
	if t.Logf("%d bytes compressed", sum); sum > most {
		t.Errorf("the pages have %d bytes compressed, want %d at most", sum, most)
	}
}

// The page contains nothing that the Content-Security-Policy forbids, because that would fail only in a
// browser. It contains only relative links.
func TestSources(t *testing.T) {
	t.Parallel()
	page, err := assets.ReadFile("assets/index.html")
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`<script>|<style|\s(on\w+|style)=|(src|href)="(/|\w+:)`).Find(page); found != nil {
		t.Errorf("index.html has %q", found)
	}
	files, err := filepath.Glob("../../web/src/*.ts*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|dangerouslySet|https?://`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := forbidden.Find(text); found != nil {
			t.Errorf("%s has %q", file, found)
		}
	}
}

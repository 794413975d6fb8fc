// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package dashboard serves the dashboard, and forwards the requests of its pages to a cluster.
//
// hack/web.sh builds the pages from web/src. The pages are the same for all users. The browser requests the
// data as its user.
package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed assets
var assets embed.FS

// contentSecurityPolicy permits the pages to load and to request only resources of the same origin.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// responseHeaders are the headers of every response.
var responseHeaders = map[string]string{
	"Content-Security-Policy": contentSecurityPolicy,
	"X-Content-Type-Options":  "nosniff",
	"X-Frame-Options":         "DENY",
	"Referrer-Policy":         "no-referrer",
	"Cache-Control":           "no-cache, private",
}

var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".json": "application/json",
}

// page is a file, uncompressed and compressed.
type page struct {
	media, tag               string
	uncompressed, compressed []byte
}

var readPages = sync.OnceValues(func() (map[string]page, error) {
	pages := map[string]page{}
	entries, err := fs.ReadDir(assets, "assets")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		content, err := assets.ReadFile(path.Join("assets", entry.Name()))
		if err != nil {
			return nil, err
		}
		zipped, err := compress(content)
		if err != nil {
			return nil, err
		}
		pages[entry.Name()] = page{media: mediaTypes[path.Ext(entry.Name())], tag: tagOf(content), uncompressed: content, compressed: zipped}
	}
	pages[""] = pages["index.html"]
	return pages, nil
})

func compress(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// aboutPage is the name of the file that describes the program.
const aboutPage = "about.json"

// About describes the program that serves the pages. The pages show it in their header and their footer.
type About struct {
	// Version is the version of the program; empty if it is unknown.
	Version string `json:"version,omitempty"`
	// Cluster is a name of the cluster that the pages show, such as a context of a kubeconfig; empty if the
	// program does not know one.
	Cluster string `json:"cluster,omitempty"`
}

// buildVersion is the version of Weir. The build of a release sets it with the flag -X of the linker.
var buildVersion = "dev"

// BuildVersion returns the version of Weir, for the programs that serve the pages.
func BuildVersion() string { return buildVersion }

// aboutFile returns the file that describes the program.
func aboutFile(about About) (page, error) {
	content, err := json.Marshal(about)
	if err != nil {
		return page{}, err
	}
	zipped, err := compress(content)
	return page{media: mediaTypes[".json"], tag: tagOf(content), uncompressed: content, compressed: zipped}, err
}

func tagOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:12])
}

// Pages serves the files below a path. The path must end with a slash.
func Pages(root string, about About) http.Handler {
	described, aboutErr := aboutFile(about)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range responseHeaders {
			w.Header().Set(name, value)
		}
		pages, err := readPages()
		if err = errors.Join(err, aboutErr); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		name, below := strings.CutPrefix(r.URL.Path, root)
		found, ok := pages[name]
		if name == aboutPage {
			found, ok = described, true
		}
		switch {
		case !below || !ok:
			// The response must not be a redirect: the aggregator answers a redirect with an error.
			http.Error(w, "there is no such page; the dashboard is at "+root, http.StatusNotFound)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "pages are only read", http.StatusMethodNotAllowed)
		default:
			found.servePage(w, r)
		}
	})
}

func (p page) servePage(w http.ResponseWriter, r *http.Request) {
	content, tag := p.uncompressed, p.tag
	// The aggregator rewrites HTML, and can read it only uncompressed.
	if !strings.HasPrefix(p.media, "text/html") {
		w.Header().Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			content, tag = p.compressed, p.tag+"-gzip"
		}
	}
	w.Header().Set("Content-Type", p.media)
	w.Header().Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

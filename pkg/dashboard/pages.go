// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package dashboard answers: what does a browser get, and what may it ask for?
//
// The pages are made of web/src by hack/web.sh. They are the same for everyone: what a
// user sees is asked for by the browser, as that user.
package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed assets
var assets embed.FS

// policy lets the pages load and ask for nothing but what is beside them.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// headers are those of every answer.
var headers = map[string]string{
	"Content-Security-Policy": policy,
	"X-Content-Type-Options":  "nosniff",
	"X-Frame-Options":         "DENY",
	"Referrer-Policy":         "no-referrer",
	"Cache-Control":           "no-cache, private",
}

var media = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

// page is a file, as it is and compressed.
type page struct {
	media, tag    string
	plain, zipped []byte
}

var read = sync.OnceValues(func() (map[string]page, error) {
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
		zipped, err := zip(content)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(content)
		pages[entry.Name()] = page{
			media: media[path.Ext(entry.Name())], tag: hex.EncodeToString(sum[:12]), plain: content, zipped: zipped,
		}
	}
	pages[""] = pages["index.html"]
	return pages, nil
})

func zip(content []byte) ([]byte, error) {
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

// Pages serves the files below a path that ends with a slash.
func Pages(root string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		pages, err := read()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		name, below := strings.CutPrefix(r.URL.Path, root)
		found, ok := pages[name]
		switch {
		case !below || !ok:
			// The aggregator makes an error of a redirect.
			http.Error(w, "there is no such page; the dashboard is at "+root, http.StatusNotFound)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "pages are only read", http.StatusMethodNotAllowed)
		default:
			found.serve(w, r)
		}
	})
}

func (p page) serve(w http.ResponseWriter, r *http.Request) {
	content, tag := p.plain, p.tag
	// The aggregator rewrites HTML, and reads it uncompressed.
	if !strings.HasPrefix(p.media, "text/html") {
		w.Header().Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			content, tag = p.zipped, p.tag+"-gzip"
		}
	}
	w.Header().Set("Content-Type", p.media)
	w.Header().Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

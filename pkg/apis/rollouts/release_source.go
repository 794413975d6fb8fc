// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"cmp"
	"net/url"
	"strings"
)

// ReleaseSource is what the owner of a workload says about the content of a release, in annotations. These texts are
// not verified. Weir limits and cleans them, because others read them in a terminal or in a browser.
type ReleaseSource struct {
	// Version is the version of the software.
	Version string
	// Commit is the revision in the source code repository.
	Commit string
	// Author is who made the release.
	Author string
	// Repository is the address of the source code, http or https.
	Repository string
	// Link is an address with more about the release, http or https.
	Link string
}

// Limits of the texts of a ReleaseSource, in characters.
const (
	maxSourceText = 256
	maxSourceLink = 1024
)

// DefaultReleaseAnnotations are the annotations that a ReleaseSource is read from, by its fields.
var DefaultReleaseAnnotations = map[string]string{
	"version": "org.opencontainers.image.version", "commit": "org.opencontainers.image.revision", "author": "org.opencontainers.image.authors",
	"repository": "org.opencontainers.image.source", "link": "org.opencontainers.image.url",
}

// NewReleaseSource reads a ReleaseSource from annotations. keys names the annotation of each field. The first
// annotations that have a value take precedence. NewReleaseSource returns nil if no field has a value.
func NewReleaseSource(keys map[string]string, annotations ...map[string]string) *ReleaseSource {
	read := func(field string) string {
		text := ""
		for _, of := range annotations {
			text = cmp.Or(text, strings.TrimSpace(of[keys[field]]))
		}
		return text
	}
	s := &ReleaseSource{Version: read("version"), Commit: read("commit"), Author: read("author"), Repository: read("repository"), Link: read("link")}
	return s.Cleaned()
}

// Cleaned returns the source with texts that others may read; nil if nothing is left.
func (s *ReleaseSource) Cleaned() *ReleaseSource {
	if s == nil {
		return nil
	}
	out := ReleaseSource{
		Version: Clean(s.Version, maxSourceText), Commit: Clean(s.Commit, maxSourceText), Author: Clean(s.Author, maxSourceText),
		Repository: webAddress(s.Repository), Link: webAddress(s.Link),
	}
	if out == (ReleaseSource{}) {
		return nil
	}
	return &out
}

// webAddress returns an address that a browser can safely open; empty if the text is none. A browser would run a
// javascript address, and an address with a user name can look like that of another host.
func webAddress(text string) string {
	if _, hidden := Hidden(text); hidden || len(text) > maxSourceLink {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil {
		return ""
	}
	return u.String()
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Command site writes the pages of docs as a static site, with a search that needs no server: site OUT [VERSION].
// The pages need no other host, and work from a directory, too. make site calls it.
package main

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

//go:embed theme
var theme embed.FS

// repository is where the site links to for files that are no pages.
const repository = "https://github.com/weir-rollouts/weir"

// home is the page that lists all others. Its sections are the navigation.
const home = "README.md"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "use: site OUT [VERSION]")
		os.Exit(2)
	}
	version := ""
	if len(os.Args) > 2 {
		version = os.Args[2]
	}
	if err := build("docs", os.Args[1], version); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// page is one page of the site.
type page struct {
	// Source is the path of the Markdown below docs, and URL that of the page.
	Source, URL string
	Title       string
	Description string
	Body        template.HTML
	Contents    []heading
	sections    []section
	// navigation has the sections of the page home, and the links of their lists.
	navigation []navSection
}

// heading is an entry in the contents of a page.
type heading struct{ ID, Text string }

// section is a part of a page that the search finds.
type section struct {
	URL   string `json:"u"`
	Page  string `json:"p"`
	Title string `json:"t"`
	Text  string `json:"x"`
}

type navSection struct {
	Title string
	Links []navLink
}

type navLink struct{ Source, URL, Text string }

// build writes the site of the pages in a directory.
func build(docs, out, version string) error {
	sources, err := listPages(docs)
	if err != nil {
		return err
	}
	var pages []*page
	for _, source := range sources {
		text, err := os.ReadFile(filepath.Join(docs, source))
		if err != nil {
			return fmt.Errorf("reading a page: %w", err)
		}
		p, err := convert(source, text, sources)
		if err != nil {
			return fmt.Errorf("converting %s: %w", source, err)
		}
		pages = append(pages, p)
	}
	pages = append(pages, indexOfDecisions(pages))
	first := slices.IndexFunc(pages, func(p *page) bool { return p.Source == home })
	if first < 0 {
		return fmt.Errorf("%s has no %s", docs, home)
	}
	if err := writePages(out, version, pages, pages[first].navigation); err != nil {
		return err
	}
	if err := writeSearch(out, pages); err != nil {
		return err
	}
	return copyFiles(docs, out)
}

// listPages returns the paths of all pages, sorted.
func listPages(docs string) ([]string, error) {
	var all []string
	err := fs.WalkDir(os.DirFS(docs), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(name, ".md") {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing the pages: %w", err)
	}
	return all, nil
}

// pageURL returns the path of a page in the site.
func pageURL(source string) string {
	if source == home {
		return "index.html"
	}
	return strings.TrimSuffix(source, ".md") + ".html"
}

// indexOfDecisions returns the page that lists the decisions, which docs has as a directory.
func indexOfDecisions(pages []*page) *page {
	index := &page{Source: decisions, URL: decisions + "/index.html", Title: "Decisions", Description: "Why Weir is built as it is."}
	var b strings.Builder
	b.WriteString("<h1>Decisions</h1>\n<p>Each page records one decision about the design of Weir, and its reasons.</p>\n<ul>\n")
	for _, p := range pages {
		if path.Dir(p.Source) == decisions {
			fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a></li>\n", path.Base(p.URL), template.HTMLEscapeString(p.Title))
		}
	}
	b.WriteString("</ul>\n")
	index.Body = template.HTML(b.String())
	return index
}

// decisions is the directory of the decisions below docs.
const decisions = "adr"

// writePages writes the HTML of all pages.
func writePages(out, version string, pages []*page, navigation []navSection) error {
	layout, err := template.ParseFS(theme, "theme/page.html")
	if err != nil {
		return fmt.Errorf("reading the layout: %w", err)
	}
	for _, p := range pages {
		var b bytes.Buffer
		err := layout.Execute(&b, map[string]any{
			"Page": p, "Navigation": navigation, "Version": version, "Repository": repository,
			"Root":   strings.Repeat("../", strings.Count(p.URL, "/")),
			"IsPage": p.Source != decisions,
		})
		if err != nil {
			return fmt.Errorf("writing %s: %w", p.URL, err)
		}
		if err := writeFile(filepath.Join(out, p.URL), b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// writeSearch writes the index of the search as a script, because a page that was opened from a directory cannot
// fetch JSON.
func writeSearch(out string, pages []*page) error {
	var all []section
	for _, p := range pages {
		all = append(all, p.sections...)
	}
	slices.SortStableFunc(all, func(a, b section) int { // decisions last
		return cmp.Compare(strings.Count(a.URL, "/"), strings.Count(b.URL, "/"))
	})
	data, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("writing the index of the search: %w", err)
	}
	return writeFile(filepath.Join(out, "search-index.js"), slices.Concat([]byte("window.searchIndex = "), data, []byte(";\n")))
}

// copyFiles copies the style, the script and the pictures.
func copyFiles(docs, out string) error {
	for _, name := range []string{"style.css", "script.js"} {
		data, err := theme.ReadFile("theme/" + name)
		if err != nil {
			return fmt.Errorf("copying %s: %w", name, err)
		}
		if err := writeFile(filepath.Join(out, name), data); err != nil {
			return err
		}
	}
	images, err := fs.Glob(os.DirFS(docs), "images/*")
	if err != nil {
		return fmt.Errorf("listing pictures: %w", err)
	}
	for _, name := range images {
		data, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil {
			return fmt.Errorf("copying %s: %w", name, err)
		}
		if err := writeFile(filepath.Join(out, name), data); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		return fmt.Errorf("writing a page: %w", err)
	}
	return nil
}

// plainText returns the text of a node, without markup.
func plainText(node ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the walker returns no error
		switch v := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(v.Segment.Value(source))
				if v.SoftLineBreak() || v.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			if entering {
				for i := range n.Lines().Len() {
					line := n.Lines().At(i)
					b.Write(line.Value(source))
				}
			}
		}
		if !entering && n.Type() == ast.TypeBlock {
			b.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

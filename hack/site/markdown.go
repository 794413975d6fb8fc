// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"html/template"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown converts pages as GitHub does: with tables, and with the same anchors. Pages may have HTML comments; any
// other HTML is left out.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Table, extension.Linkify, extension.Strikethrough),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(codeBlocks{}, 100))),
)

// convert converts a page.
func convert(source string, markup []byte, sources []string) (*page, error) {
	p := &page{Source: source, URL: pageURL(source)}
	document := markdown.Parser().Parse(text.NewReader(markup), parser.WithContext(parser.NewContext(parser.WithIDs(&anchors{}))))
	if source == home {
		p.navigation = readNavigation(document, markup)
	}
	current := section{URL: p.URL}
	var words []string
	endSection := func() {
		current.Page, current.Text = p.Title, strings.Join(words, " ")
		if current.Title != "" && source != home {
			p.sections = append(p.sections, current)
		}
		words = nil
	}
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		title, isHeading := n.(*ast.Heading)
		switch {
		case isHeading && title.Level == 1:
			p.Title = plainText(n, markup)
			current.Title = p.Title
		case isHeading:
			endSection()
			id, _ := n.AttributeString("id")
			name := string(id.([]byte))
			current = section{URL: p.URL + "#" + name, Title: plainText(n, markup)}
			if title.Level == 2 {
				p.Contents = append(p.Contents, heading{name, current.Title})
			}
		default:
			words = append(words, plainText(n, markup))
			if _, ok := n.(*ast.Paragraph); ok && p.Description == "" {
				p.Description = plainText(n, markup)
			}
		}
	}
	endSection()
	if err := rewriteLinks(document, source, sources); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, markup, document); err != nil {
		return nil, fmt.Errorf("rendering: %w", err)
	}
	body := strings.NewReplacer("<table>", `<div class="table"><table>`, "</table>", "</table></div>").Replace(b.String())
	p.Body = template.HTML(body)
	return p, nil
}

// readNavigation returns the sections of the home page, and the links of their lists.
func readNavigation(document ast.Node, markup []byte) []navSection {
	var all []navSection
	for n := document.FirstChild(); n != nil; n = n.NextSibling() {
		if title, ok := n.(*ast.Heading); ok && title.Level == 2 {
			all = append(all, navSection{Title: plainText(n, markup)})
			continue
		}
		if _, ok := n.(*ast.List); !ok || len(all) == 0 {
			continue
		}
		last := &all[len(all)-1]
		_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the walker returns no error
			if link, ok := n.(*ast.Link); ok && entering {
				target := string(link.Destination)
				url := pageURL(target)
				if target == decisions {
					url = decisions + "/index.html"
				}
				label := []rune(plainText(n, markup))
				label[0] = unicode.ToUpper(label[0])
				last.Links = append(last.Links, navLink{target, url, string(label)})
			}
			return ast.WalkContinue, nil
		})
	}
	return all
}

// rewriteLinks makes links to pages lead to their HTML, and links to other files to the repository.
func rewriteLinks(document ast.Node, source string, sources []string) error {
	return ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		link, ok := n.(*ast.Link)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		target, anchor, hasAnchor := strings.Cut(string(link.Destination), "#")
		if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			return ast.WalkContinue, nil
		}
		file := path.Join(path.Dir(source), target)
		var url string
		switch {
		case slices.Contains(sources, file):
			url = relativeURL(pageURL(source), pageURL(file))
		case file == decisions:
			url = relativeURL(pageURL(source), decisions+"/index.html")
		case strings.HasPrefix(file, "../"):
			url = repository + "/blob/HEAD/" + strings.TrimPrefix(file, "../")
		default:
			return ast.WalkStop, fmt.Errorf("the link to %s leads to no page", target)
		}
		if hasAnchor {
			url += "#" + anchor
		}
		link.Destination = []byte(url)
		return ast.WalkContinue, nil
	})
}

// relativeURL returns the path from one page to another.
func relativeURL(from, to string) string {
	return strings.Repeat("../", strings.Count(from, "/")) + to
}

// anchors are the anchors of one page, made as GitHub makes them.
type anchors struct {
	used []string
}

func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	anchor := slug(string(value))
	unique := anchor
	for n := 1; slices.Contains(a.used, unique); n++ {
		unique = anchor + "-" + strconv.Itoa(n)
	}
	a.used = append(a.used, unique)
	return []byte(unique)
}

func (a *anchors) Put(value []byte) { a.used = append(a.used, string(value)) }

// slug returns the anchor of a heading: lower-case letters and digits, with hyphens for spaces.
func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

// codeBlocks renders code blocks, and those of the language mermaid as diagrams.
type codeBlocks struct{}

func (codeBlocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, renderCode)
}

func renderCode(w util.BufWriter, markup []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	language := string(n.(*ast.FencedCodeBlock).Language(markup))
	var b bytes.Buffer
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		b.Write(line.Value(markup))
	}
	if language == "mermaid" {
		d, err := parseDiagram(b.String())
		if err != nil {
			return ast.WalkStop, err
		}
		_, _ = w.WriteString(d.html()) // the writer keeps its first error
		return ast.WalkContinue, nil
	}
	_, _ = w.WriteString("<pre><code>")
	html.DefaultWriter.RawWrite(w, b.Bytes())
	_, _ = w.WriteString("</code></pre>\n")
	return ast.WalkContinue, nil
}

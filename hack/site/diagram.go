// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
)

// diagram is the content of a diagram in the language Mermaid. GitHub draws such diagrams with a program of the browser.
// The site loads no such program and writes a diagram as text, which also fits on a phone.
type diagram struct {
	// texts are the texts of the nodes, by name.
	texts map[string]string
	rows  []row
	// isFlow reports whether a line may continue the chain of the line before.
	isFlow bool
	// steps are the messages of a sequence diagram.
	steps []string
}

// row is a chain of nodes, or one node, with the title of its subgraph.
type row struct {
	title  string
	nodes  []string
	labels []string // of the arrows: one fewer than nodes
}

var (
	// connector is between two nodes of a line; the label is in one of its groups.
	connector = regexp.MustCompile(`\s*(?:-->\|([^|]*)\||-\.->\|([^|]*)\||-- "([^"]*)" -->|-- ([^->|"]+) -->|-->|-\.->|---)\s*`)
	// node is a name, and optionally its text in brackets.
	node = regexp.MustCompile(`^([A-Za-z0-9_.-]+|\[\*\])\s*(?:[\[({]+"?(.*?)"?[\])}]+)?$`)
	// subgraph begins a group.
	subgraph = regexp.MustCompile(`^(?:subgraph|state)\s+([A-Za-z0-9_.-]+)\s*(?:\["?(.*?)"?\])?\s*\{?$`)
	// participant, message and note are lines of a sequence diagram.
	participant = regexp.MustCompile(`^participant (\w+) as (.*)$`)
	message     = regexp.MustCompile(`^(\w+)-+>>(\w+): (.*)$`)
	note        = regexp.MustCompile(`^Note over [\w,]+: (.*)$`)
	lineBreak   = regexp.MustCompile(`<br ?/?>`)
)

// parseDiagram parses a diagram. It returns an error for a line that it does not understand.
func parseDiagram(source string) (*diagram, error) {
	d, title := &diagram{texts: map[string]string{}}, ""
	for line := range strings.Lines(source) {
		line = strings.TrimSpace(line)
		switch first, _, _ := strings.Cut(line, " "); first {
		case "", "stateDiagram-v2", "sequenceDiagram", "direction":
			continue
		case "flowchart":
			d.isFlow = true
			continue
		case "end", "}":
			title = ""
			continue
		}
		if found := subgraph.FindStringSubmatch(line); found != nil {
			if title = toText(found[2]); title == "" {
				title = found[1]
			}
			continue
		}
		if d.addMessage(line) {
			continue
		}
		if err := d.addLine(title, line); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// addMessage adds a line of a sequence diagram, and reports whether it is one.
func (d *diagram) addMessage(line string) bool {
	if found := participant.FindStringSubmatch(line); found != nil {
		d.texts[found[1]] = found[2]
		return true
	}
	if found := note.FindStringSubmatch(line); found != nil {
		d.steps = append(d.steps, found[1])
		return true
	}
	found := message.FindStringSubmatch(line)
	if found == nil {
		return false
	}
	step := d.texts[found[1]]
	if found[1] != found[2] {
		step += " → " + d.texts[found[2]]
	}
	d.steps = append(d.steps, step+": "+found[3])
	return true
}

// addLine adds the nodes and arrows of a line.
func (d *diagram) addLine(title, line string) error {
	line, after := cutLabel(line)
	r := row{title: title}
	for {
		at := connector.FindStringSubmatchIndex(line)
		part := line
		if at != nil {
			part = line[:at[0]]
		}
		var here []string
		for text := range strings.SplitSeq(part, " & ") {
			name, err := d.addNode(strings.TrimSpace(text), len(r.nodes) > 0)
			if err != nil {
				return fmt.Errorf("%w in %q", err, line)
			}
			here = append(here, name)
		}
		if len(here) > 1 && len(r.nodes) == 0 {
			return fmt.Errorf("a line begins with several nodes: %q", line)
		}
		for _, name := range here[1:] { // each further node has a row of its own
			d.rows = append(d.rows, row{title, append(r.nodes[len(r.nodes)-1:len(r.nodes):len(r.nodes)], name), r.labels[len(r.labels)-1:]})
		}
		r.nodes = append(r.nodes, here[0])
		if at == nil {
			break
		}
		label := toText(strings.Join(connector.FindStringSubmatch(line)[1:], ""))
		r.labels, line = append(r.labels, label), line[at[1]:]
	}
	switch {
	case after == "":
	case len(r.labels) == 0: // of a node
		d.texts[r.nodes[0]] = after
		return nil
	default:
		r.labels[len(r.labels)-1] = after
	}
	d.addRow(r)
	return nil
}

// addRow adds a row, or extends the latest row if the new one begins where it ends.
func (d *diagram) addRow(r row) {
	if n := len(d.rows); d.isFlow && n > 0 && len(r.nodes) > 1 {
		last := &d.rows[n-1]
		if last.title == r.title && last.nodes[len(last.nodes)-1] == r.nodes[0] {
			last.nodes, last.labels = append(last.nodes, r.nodes[1:]...), append(last.labels, r.labels...)
			return
		}
	}
	d.rows = append(d.rows, r)
}

// cutLabel splits the label of a state diagram, which is behind the arrow: A --> B: label.
func cutLabel(line string) (arrow, label string) {
	head, label, found := strings.Cut(line, ": ")
	if !found || strings.ContainsAny(strings.ReplaceAll(head, "[*]", ""), `[({|"`) {
		return line, ""
	}
	return head, toText(label)
}

// addNode adds a node and returns its name. The start and the end of a state diagram are two nodes.
func (d *diagram) addNode(text string, isTarget bool) (string, error) {
	found := node.FindStringSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("there is no node %q", text)
	}
	name, label := found[1], toText(found[2])
	switch {
	case name == "[*]" && isTarget:
		name, label = "end of all", "end"
	case name == "[*]":
		name, label = "start of all", "start"
	}
	if label == "" && d.texts[name] == "" {
		label = name
	}
	if label != "" {
		d.texts[name] = label
	}
	return name, nil
}

func toText(text string) string {
	return strings.TrimSpace(lineBreak.ReplaceAllString(text, " "))
}

// html returns the diagram as HTML: a flow as rows of boxes, states as a table, a sequence as a list.
func (d *diagram) html() string {
	var b strings.Builder
	b.WriteString("<div class=\"diagram\">\n")
	if !d.isFlow && len(d.rows) > 0 {
		d.writeStates(&b)
		b.WriteString("</div>\n")
		return b.String()
	}
	title := ""
	for _, r := range d.rows {
		if r.title != title && r.title != "" {
			fmt.Fprintf(&b, "<p>%s</p>\n", html.EscapeString(r.title))
		}
		title = r.title
		b.WriteString("<ol>")
		for i, name := range r.nodes {
			b.WriteString("<li>")
			if i > 0 && r.labels[i-1] != "" {
				fmt.Fprintf(&b, "<small>%s</small> ", html.EscapeString(r.labels[i-1]))
			}
			fmt.Fprintf(&b, "%s</li>", html.EscapeString(d.texts[name]))
		}
		b.WriteString("</ol>\n")
	}
	if len(d.steps) > 0 {
		b.WriteString("<ol class=\"steps\">")
		for _, step := range d.steps {
			fmt.Fprintf(&b, "<li>%s</li>", html.EscapeString(step))
		}
		b.WriteString("</ol>\n")
	}
	b.WriteString("</div>\n")
	return b.String()
}

// writeStates writes the rows as a table, with all rows of a state together.
func (d *diagram) writeStates(b *strings.Builder) {
	b.WriteString("<table><thead><tr><th>state</th><th>what happens</th><th>next state</th></tr></thead><tbody>\n")
	var states []string
	for _, r := range d.rows {
		if !slices.Contains(states, r.nodes[0]) {
			states = append(states, r.nodes[0])
		}
	}
	for _, state := range states {
		first := d.texts[state]
		for _, r := range d.rows {
			if r.nodes[0] != state || len(r.nodes) < 2 {
				continue
			}
			fmt.Fprintf(b, "<tr><td>%s</td><td>%s</td><td>%s</td></tr>\n",
				html.EscapeString(first), html.EscapeString(r.labels[0]), html.EscapeString(d.texts[r.nodes[1]]))
			first = "" // once for all rows of the state
		}
	}
	b.WriteString("</tbody></table>\n")
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// These are the forms of diagrams that the pages use.
func TestDiagram(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"flowchart LR\n a[\"1. one,<br/>two\"] --> b[three]\n b -->|why| c\n":                                              "1. one, two → three → (why) c",
		"flowchart LR\n client --> i1[\"Ingress web\"] -- \"80%\" --> s1[(etcd)]\n client --> i2":                          "client → Ingress web → (80%) etcd; client → i2",
		"flowchart LR\n a -- TLS --> b{yes: no}\n a --- c":                                                                 "a → (TLS) yes: no; a → c",
		"flowchart LR\n a -->|owns| b[x] & c\n":                                                                            "a → (owns) c; a → (owns) x",
		"flowchart LR\n subgraph p[\"part\"]\n p1[\"4 × v1\"]\n end\n a --> b":                                             "part: 4 × v1; a → b",
		"stateDiagram-v2\n [*] --> Running: new template\n Running --> [*]\n Running --> Paused":                           "start → (new template) Running; Running → end; Running → Paused",
		"stateDiagram-v2\n A --> next: go\n next: next step":                                                               "A → (go) next step",
		"sequenceDiagram\n participant W as weir\n participant K as kube\n W->>W: sleep\n Note over W,K: wait\n W->>K: go": "1 weir: sleep; 2 wait; 3 weir → kube: go",
	} {
		d, err := parseDiagram(source)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := d.String(); got != want {
			t.Errorf("%s\n is %s, want %s", source, got, want)
		}
		if text := d.html(); strings.Count(text, "<li>") != strings.Count(text, "</li>") || !strings.Contains(text, "<ol") && !strings.Contains(text, "<table") {
			t.Errorf("%s\n is written as %s", source, text)
		}
	}
}

// String returns a diagram in one line.
func (d *diagram) String() string {
	var rows []string
	for _, r := range d.rows {
		var text strings.Builder
		if r.title != "" {
			text.WriteString(r.title + ": ")
		}
		for i, name := range r.nodes {
			if i > 0 {
				text.WriteString(" → ")
				if r.labels[i-1] != "" {
					text.WriteString("(" + r.labels[i-1] + ") ")
				}
			}
			text.WriteString(d.texts[name])
		}
		rows = append(rows, text.String())
	}
	for i, step := range d.steps {
		rows = append(rows, strconv.Itoa(i+1)+" "+step)
	}
	return strings.Join(rows, "; ")
}

// Each diagram of the pages can be written as text.
func TestDiagramsOfPages(t *testing.T) {
	t.Parallel()
	sources, err := listPages("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	block, diagrams := regexp.MustCompile("(?s)```mermaid\n(.*?)```"), 0
	for _, source := range sources {
		text, err := os.ReadFile(filepath.Join("../../docs", source))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range block.FindAllStringSubmatch(string(text), -1) {
			diagrams++
			d, err := parseDiagram(found[1])
			if err != nil {
				t.Errorf("%s: %v", source, err)
			} else if len(d.rows)+len(d.steps) == 0 {
				t.Errorf("%s: a diagram is empty", source)
			}
		}
	}
	if diagrams < 10 {
		t.Errorf("there are only %d diagrams: the test does not find them", diagrams)
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// Render writes manifests. The notes are comments at the related steps, or at the head.
func Render(results []Result) ([]byte, error) {
	var b bytes.Buffer
	for _, r := range results {
		if b.Len() > 0 {
			b.WriteString("---\n")
		}
		if r.Object == nil {
			b.WriteString(formatComment("from "+r.From, r.Notes) + "\n")
			continue
		}
		node, err := toYAMLNode(r)
		if err != nil {
			return nil, err
		}
		encoder := yaml.NewEncoder(&b)
		encoder.SetIndent(2)
		if err := encoder.Encode(node); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// formatComment returns a comment with one line for each note.
func formatComment(title string, notes []Note) string {
	var lines []string
	if title != "" {
		lines = append(lines, "# "+title)
	}
	for _, n := range notes {
		lines = append(lines, "# "+n.String())
	}
	return strings.Join(lines, "\n")
}

// toYAMLNode returns a manifest with comments, without the status and without "disabled: false".
func toYAMLNode(r Result) (*yaml.Node, error) {
	text, err := sigsyaml.Marshal(r.Object)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	root := document.Content[0]
	for i := len(root.Content) - 2; i >= 0; i -= 2 {
		if root.Content[i].Value == "status" {
			root.Content = slices.Delete(root.Content, i, i+2)
		}
	}
	removeNotDisabled(findNode(root, "spec"))
	placeNotes(root, r)
	return root, nil
}

// removeNotDisabled removes "disabled: false", which v1beta1 always writes, from the spec of a Rollout.
func removeNotDisabled(spec *yaml.Node) {
	if spec == nil || spec.Kind != yaml.MappingNode {
		return
	}
	for i := len(spec.Content) - 2; i >= 0; i -= 2 {
		if spec.Content[i].Value == "disabled" && spec.Content[i+1].Value == "false" {
			spec.Content = slices.Delete(spec.Content, i, i+2)
		}
	}
}

// placeNotes adds each note as a comment to its step, or to the whole manifest.
func placeNotes(root *yaml.Node, r Result) {
	steps := findNode(root, "spec", "strategy", "canary", "steps")
	if steps == nil {
		steps = findNode(root, "spec", "strategy", "blueGreen", "steps")
	}
	var whole []Note
	byStep := map[int][]Note{}
	for _, n := range r.Notes {
		if steps == nil || n.Step < 1 || n.Step > len(steps.Content) {
			whole = append(whole, n)
		} else {
			byStep[n.Step] = append(byStep[n.Step], n)
		}
	}
	if r.StepsComment != "" && steps != nil && len(steps.Content) > 0 {
		steps.Content[0].HeadComment = r.StepsComment
	}
	for step, notes := range byStep {
		steps.Content[step-1].HeadComment = formatComment("", notes)
	}
	root.HeadComment = formatComment("from "+r.From, whole)
}

// findNode returns the node of a field; nil if it does not exist.
func findNode(node *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		var next *yaml.Node
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				next = node.Content[i+1]
			}
		}
		if next == nil {
			return nil
		}
		node = next
	}
	return node
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package chart answers: what do the installations of artifacts/ look like as a
// Helm chart?
//
// The chart is made of what kubectl kustomize renders, so there is one source.
// It must not know what is in an installation, only what of it is a value.
package chart

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// namespace is where the manifests install; a value in the chart.
const namespace = "weir-system"

// An Installation is what one directory of artifacts/ renders to.
type Installation struct {
	// Storage and OneProcess are the values of the chart that ask for it.
	Storage    string
	OneProcess bool
	Objects    []*unstructured.Unstructured
}

// values are those that ask for it, as one word.
func (i Installation) values() string { return fmt.Sprintf("%s %t", i.Storage, i.OneProcess) }

// An Addition is a set of objects that a value adds to every installation.
type Addition struct {
	// Value is the chart value that must be true for the objects to be rendered.
	Value   string
	Objects []*unstructured.Unstructured
}

// Text is the template for all of them. What differs is there once for each that
// has it.
func Text(all []Installation, additions ...Addition) (string, error) {
	var names []string
	texts := map[string][]string{} // by object, one for each installation
	for i, installation := range all {
		for _, o := range installation.Objects {
			if texts[id(o)] == nil {
				names = append(names, id(o))
				texts[id(o)] = make([]string, len(all))
			}
			var err error
			if texts[id(o)][i], err = template(o); err != nil {
				return "", err
			}
		}
	}
	var out bytes.Buffer
	out.WriteString("{{- /* Made from artifacts/ by go test -tags e2e ./test/e2e -run TestChart -update. Do not edit. */}}\n")
	out.WriteString("{{- include \"weir.checks\" . }}\n")
	out.WriteString(checks(all))
	for _, name := range names {
		variants := texts[name]
		for i, text := range variants {
			if text == "" || slices.Index(variants, text) < i {
				continue
			}
			var wanted []string
			for j, other := range variants {
				if other == text {
					wanted = append(wanted, strconv.Quote(all[j].values()))
				}
			}
			if len(wanted) < len(all) {
				text = fmt.Sprintf("{{- if has (printf \"%%s %%t\" .Values.storage .Values.oneProcess) (list %s) }}\n%s{{- end }}\n",
					strings.Join(wanted, " "), text)
			}
			out.WriteString(text)
		}
	}
	for _, addition := range additions {
		fmt.Fprintf(&out, "{{- if %s }}\n", addition.Value)
		for _, o := range addition.Objects {
			text, err := template(o)
			if err != nil {
				return "", err
			}
			out.WriteString(text)
		}
		out.WriteString("{{- end }}\n")
	}
	return out.String(), nil
}

// checks fail for values that no installation has. Without them such values render no server, and
// an upgrade deletes the one that runs. values.schema.json has no part in this: Helm can skip it, and
// its message does not contain the value.
func checks(all []Installation) string {
	var quoted, names []string
	for _, i := range all {
		if !slices.Contains(names, i.Storage) {
			names, quoted = append(names, i.Storage), append(quoted, strconv.Quote(i.Storage))
		}
	}
	last := len(names) - 1
	return fmt.Sprintf(`{{- if not (has .Values.storage (list %s)) }}
{{- fail (printf "storage is %%q; set %s or %s" (toString .Values.storage)) }}
{{- end }}
{{- if not (kindIs "bool" .Values.oneProcess) }}
{{- fail (printf "oneProcess is %%q; set true or false" (toString .Values.oneProcess)) }}
{{- end }}
`, strings.Join(quoted, " "), strings.Join(names[:last], ", "), names[last])
}

func id(o *unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }

// template is one object with its values left open.
func template(o *unstructured.Unstructured) (string, error) {
	o = o.DeepCopy()
	if err := insertValues(o); err != nil {
		return "", fmt.Errorf("inserting the values of %s: %w", id(o), err)
	}
	if err := insertNetworkValues(o); err != nil {
		return "", fmt.Errorf("inserting the ports of %s: %w", id(o), err)
	}
	data, err := yaml.Marshal(o.Object)
	if err != nil {
		return "", fmt.Errorf("encoding %s: %w", id(o), err)
	}
	text := string(data)
	if strings.Contains(text, "{{") {
		return "", fmt.Errorf("%s contains {{, which Helm would read", id(o))
	}
	text = "---\n" + replaceMarks(text)
	if value := condition(o); value != "" {
		text = "{{- if " + value + " }}\n" + text + "{{- end }}\n"
	}
	return strings.ReplaceAll(text, namespace, "{{ .Values.installation.namespace }}"), nil
}

// A mark stands for a value while an object is still an object.
func mark(value string) string { return "@@" + value + "@@" }

var (
	// A block is the content of a field. The field is left out if the value is empty.
	block = regexp.MustCompile(`(?m)^( *)(- )?([A-Za-z]+): '?@@block ([^@]+)@@'?\n`)
	// A line is a string in the line of its field. The field is left out if the value is empty.
	line = regexp.MustCompile(`(?m)^( *)(- )?([A-Za-z]+): '?@@line ([^@]+)@@'?\n`)
	// Entries are the fields of an object, next to fields of the manifests.
	entries = regexp.MustCompile(`(?m)^( *)entries: '?@@entries ([^@]+)@@'?\n`)
	// An extra value adds to a list, after entries of the manifests.
	extra = regexp.MustCompile(`(?m)^( *)- '?@@extra ([^@]+)@@'?\n`)
	value = regexp.MustCompile(`'?@@([^@]+)@@'?`)
)

// replaceMarks replaces marks by the actions of Helm's templates.
func replaceMarks(text string) string {
	text = block.ReplaceAllStringFunc(text, func(found string) string {
		m := block.FindStringSubmatch(found)
		first, indent := firstField(m[1], m[2])
		return fmt.Sprintf("%s%s{{- with %s }}\n%s%s:\n{{ toYaml . | indent %d }}\n%s{{- end }}\n", first, indent, m[4], indent, m[3], len(indent)+2, indent)
	})
	text = line.ReplaceAllStringFunc(text, func(found string) string {
		m := line.FindStringSubmatch(found)
		first, indent := firstField(m[1], m[2])
		return fmt.Sprintf("%s%s{{- with %s }}\n%s%s: {{ . | quote }}\n%s{{- end }}\n", first, indent, m[4], indent, m[3], indent)
	})
	for _, list := range []*regexp.Regexp{entries, extra} {
		text = list.ReplaceAllStringFunc(text, func(found string) string {
			m := list.FindStringSubmatch(found)
			return fmt.Sprintf("%s{{- with %s }}\n{{ toYaml . | indent %d }}\n%s{{- end }}\n", m[1], m[2], len(m[1]), m[1])
		})
	}
	return value.ReplaceAllString(text, "{{ $1 }}")
}

// firstField returns what precedes a field that may be left out, and the indentation of the field. If
// the field is the first one of an entry of a list, the dash of the entry gets a line of its own, because
// it stays when the field is left out.
func firstField(indent, dash string) (before, inner string) {
	if dash == "" {
		return "", indent
	}
	return indent + "-\n", indent + "  "
}

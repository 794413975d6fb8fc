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

// Text is the template for all of them. What differs is there once for each that
// has it.
func Text(all []Installation) (string, error) {
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
	if err := open(o); err != nil {
		return "", fmt.Errorf("opening %s: %w", id(o), err)
	}
	if err := insertNetworkValues(o); err != nil {
		return "", fmt.Errorf("opening the ports of %s: %w", id(o), err)
	}
	data, err := yaml.Marshal(o.Object)
	if err != nil {
		return "", fmt.Errorf("encoding %s: %w", id(o), err)
	}
	text := string(data)
	if strings.Contains(text, "{{") {
		return "", fmt.Errorf("%s contains {{, which Helm would read", id(o))
	}
	text = "---\n" + closeMarks(text)
	if value := condition(o); value != "" {
		text = "{{- if " + value + " }}\n" + text + "{{- end }}\n"
	}
	return strings.ReplaceAll(text, namespace, "{{ .Values.installation.namespace }}"), nil
}

// A mark stands for a value while an object is still an object.
func mark(value string) string { return "@@" + value + "@@" }

var (
	// A block takes the whole field, which is left out when the value is empty.
	block = regexp.MustCompile(`(?m)^( *)(- )?([A-Za-z]+): '?@@block ([^@]+)@@'?\n`)
	// An extra entry of a list that other entries precede.
	extra = regexp.MustCompile(`(?m)^( *)- '?@@extra ([^@]+)@@'?\n`)
	// Entries of a map that other entries precede or follow. The key is not part of the result.
	entries = regexp.MustCompile(`(?m)^( *)entries: '?@@entries ([^@]+)@@'?\n`)
	value   = regexp.MustCompile(`'?@@([^@]+)@@'?`)
)

// closeMarks writes what a mark stands for as Helm writes it.
func closeMarks(text string) string {
	text = block.ReplaceAllStringFunc(text, func(line string) string {
		m := block.FindStringSubmatch(line)
		indent := len(m[1]) + len(m[2]) + 2
		return fmt.Sprintf("%s{{- with %s }}\n%s%s%s:\n{{ toYaml . | indent %d }}\n%s{{- end }}\n", m[1], m[4], m[1], m[2], m[3], indent, m[1])
	})
	text = extra.ReplaceAllStringFunc(text, func(line string) string {
		m := extra.FindStringSubmatch(line)
		return fmt.Sprintf("%s{{- with %s }}\n{{ toYaml . | indent %d }}\n%s{{- end }}\n", m[1], m[2], len(m[1]), m[1])
	})
	text = entries.ReplaceAllStringFunc(text, func(line string) string {
		m := entries.FindStringSubmatch(line)
		return fmt.Sprintf("%s{{- with %s }}\n{{ toYaml . | indent %d }}\n%s{{- end }}\n", m[1], m[2], len(m[1]), m[1])
	})
	return value.ReplaceAllString(text, "{{ $1 }}")
}

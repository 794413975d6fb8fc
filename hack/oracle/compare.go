// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// The kinds of difference: Weir's answer has a value that the answer of the CRDs lacks, lacks a
// value, or has another value.
const (
	added   = "added"
	dropped = "dropped"
	changed = "changed"
)

// difference is one difference between two answers.
type difference struct {
	// in is the case and the request.
	in string
	// how is the kind of difference.
	how string
	// at is the path of the value in the object, or "code", or "warning" and its text.
	at        string
	crd, weir string
}

func (d difference) String() string {
	return fmt.Sprintf("%s: %s %s: CRD %s, Weir %s", d.in, d.how, d.at, d.crd, d.weir)
}

// compare sends the requests of a case to both servers, and reports the differences.
func compare(ctx context.Context, c *testCase, crds, weir *server, r *report) error {
	namespace := fmt.Sprintf("case-%d", r.cases)
	for _, s := range []*server{crds, weir} {
		body := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}
		if err := s.must(ctx, http.MethodPost, "/api/v1/namespaces", body, http.StatusCreated); err != nil {
			return err
		}
	}
	for i, request := range c.Do {
		for key, body := range request {
			want, err := crds.send(ctx, c, namespace, key, body)
			if err != nil {
				return err
			}
			got, err := weir.send(ctx, c, namespace, key, body)
			if err != nil {
				return err
			}
			r.requests++
			in := fmt.Sprintf("%s: %d %s", c.name(), i+1, key)
			for _, d := range differences(in, want, got) {
				r.add(d)
			}
			if want.failed() != got.failed() {
				return nil // the objects differ from here on
			}
		}
	}
	return nil
}

// differences compares two answers: code and reason, warnings, and the object if there is one.
func differences(in string, want, got *answer) []difference {
	var all []difference
	if want.summary() != got.summary() {
		all = append(all, difference{
			in: in, how: changed, at: "code",
			crd: want.summary() + " (" + want.message() + ")", weir: got.summary() + " (" + got.message() + ")",
		})
	}
	all = append(all, diffValues(in, warningValues(want.warnings), warningValues(got.warnings))...)
	if want.failed() || got.failed() {
		return all
	}
	return append(all, diffValues(in, objectValues(want.body), objectValues(got.body))...)
}

// warningValues returns warnings as values.
func warningValues(warnings []string) map[string]string {
	out := map[string]string{}
	for _, w := range warnings {
		out["warning "+w] = "given"
	}
	return out
}

// diffValues compares values by their paths.
func diffValues(in string, want, got map[string]string) []difference {
	var all []difference
	for _, at := range slices.Sorted(maps.Keys(want)) {
		value, ok := got[at]
		switch {
		case !ok:
			all = append(all, difference{in: in, how: dropped, at: at, crd: want[at], weir: "nothing"})
		case value != want[at]:
			all = append(all, difference{in: in, how: changed, at: at, crd: want[at], weir: value})
		}
	}
	for _, at := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[at]; !ok {
			all = append(all, difference{in: in, how: added, at: at, crd: "nothing", weir: got[at]})
		}
	}
	return all
}

// ignoredMetadata are fields that differ in every run.
var ignoredMetadata = []string{"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "namespace", "continue"}

// ageCell is an age in a table.
var ageCell = regexp.MustCompile(`^\d+s$`)

// objectValues returns the values of an object by their paths, without those that differ in every run.
func objectValues(object map[string]any) map[string]string {
	out := map[string]string{}
	addValues(object, "", out)
	return out
}

// addValues adds the values below a path. Entries of managedFields are named by their manager, and
// not by their position.
func addValues(value any, at string, out map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		if strings.HasSuffix(at, ".managedFields[]") {
			at = strings.TrimSuffix(at, "[]") + fmt.Sprintf("[%v %v %v %v]", v["manager"], v["operation"], v["apiVersion"], v["subresource"])
			delete(v, "time")
		}
		if len(v) == 0 {
			out[at] = "{}"
		}
		for key, child := range v {
			path := at + "." + key
			isMetadata := strings.HasSuffix(at, ".metadata") || at == ".details"
			if isMetadata && slices.Contains(ignoredMetadata, key) {
				continue
			}
			addValues(child, path, out)
		}
	case []any:
		if len(v) == 0 {
			out[at] = "[]"
		}
		for i, child := range v {
			index := fmt.Sprintf("[%d]", i)
			if strings.HasSuffix(at, ".managedFields") {
				index = "[]"
			}
			if age, ok := child.(string); ok && strings.HasSuffix(at, ".cells") && ageCell.MatchString(age) {
				child = "age"
			}
			addValues(child, at+index, out)
		}
	default:
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte(fmt.Sprint(v))
		}
		out[at] = string(text)
	}
}

// report collects and prints the differences.
type report struct {
	out     io.Writer
	verbose bool
	// complete is true if all cases run. Then each row of the table must have a difference.
	complete                 bool
	cases, requests, unknown int
	// counts are the numbers of known differences, by their reason.
	counts map[string]int
}

// add counts a known difference, and prints an unknown one.
func (r *report) add(d difference) {
	for i := range table {
		k := &table[i]
		if !k.matches(d) {
			continue
		}
		r.counts[k.reason]++
		if r.verbose {
			fmt.Fprintf(r.out, "%s: %s\n", k.class, d)
		}
		return
	}
	r.unknown++
	fmt.Fprintf(r.out, "UNKNOWN: %s\n", d)
}

// finish prints the numbers of differences. It fails if a difference is unknown, or if a row of the
// table is no longer needed.
func (r *report) finish() error {
	fmt.Fprintf(r.out, "%d cases, %d requests\n", r.cases, r.requests)
	var unused int
	for i := range table {
		k := &table[i]
		if r.counts[k.reason] == 0 && r.complete {
			unused++
			fmt.Fprintf(r.out, "UNUSED: %s: %s\n", k.class, k.reason)
			continue
		}
		if n := r.counts[k.reason]; n > 0 {
			fmt.Fprintf(r.out, "%5d %s: %s\n", n, k.class, k.reason)
		}
	}
	if r.unknown > 0 {
		return fmt.Errorf("%d differences are unknown; correct Weir, or add them to hack/oracle/known.go and docs/compatibility.md", r.unknown)
	}
	if unused > 0 {
		return fmt.Errorf("%d rows of hack/oracle/known.go match no difference any more; remove them", unused)
	}
	return nil
}

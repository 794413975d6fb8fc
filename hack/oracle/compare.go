// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// How a thing of Weir's answer differs from the CRD's.
const (
	added   = "added"
	dropped = "dropped"
	changed = "changed"
)

// difference is one thing that is not the same in both answers.
type difference struct {
	// in is the case and the request.
	in string
	// how it differs.
	how string
	// at is a path in the object, or code or warning.
	at        string
	crd, weir string
}

func (d difference) String() string {
	return fmt.Sprintf("%s: %s %s: CRD %s, Weir %s", d.in, d.how, d.at, d.crd, d.weir)
}

// compare sends the requests of a case to both.
func compare(ctx context.Context, c *testCase, crds, weir *server, r *report) error {
	namespace := fmt.Sprintf("case-%d", r.cases)
	for _, s := range []*server{crds, weir} {
		body := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}
		if _, err := s.must(ctx, http.MethodPost, "/api/v1/namespaces", body, http.StatusCreated); err != nil {
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
				r.note(d)
			}
			if want.failed() != got.failed() {
				// What follows is about two different things.
				return release(ctx, c, crds, namespace)
			}
		}
	}
	return release(ctx, c, crds, namespace)
}

// release takes the finalizers from the objects of a case, which would keep the
// CRD from being replaced.
func release(ctx context.Context, c *testCase, s *server, namespace string) error {
	path := "/apis/" + group + "/" + c.Version + "/namespaces/" + namespace + "/" + c.Resource
	list, err := s.must(ctx, http.MethodGet, path, nil, http.StatusOK)
	if err != nil {
		return err
	}
	items, _ := list.body["items"].([]any)
	for _, item := range items {
		object, _ := item.(map[string]any)
		finalizers, _, _ := unstructured.NestedSlice(object, "metadata", "finalizers")
		name, _, _ := unstructured.NestedString(object, "metadata", "name")
		if len(finalizers) == 0 {
			continue
		}
		if _, err := s.write(ctx, http.MethodPatch, path+"/"+name, "application/merge-patch+json", map[string]any{
			"metadata": map[string]any{"finalizers": nil},
		}); err != nil {
			return err
		}
	}
	return nil
}

func differences(in string, want, got *answer) []difference {
	var all []difference
	if want.summary() != got.summary() {
		all = append(all, difference{
			in: in, how: changed, at: "code",
			crd: want.summary() + " (" + want.message() + ")", weir: got.summary() + " (" + got.message() + ")",
		})
	}
	all = append(all, diffLeaves(in, warned(want.warnings), warned(got.warnings))...)
	if want.failed() || got.failed() {
		return all
	}
	return append(all, diffLeaves(in, leaves(want.body), leaves(got.body))...)
}

// warned are warnings as leaves.
func warned(warnings []string) map[string]string {
	out := map[string]string{}
	for _, w := range warnings {
		out["warning "+w] = "given"
	}
	return out
}

func diffLeaves(in string, want, got map[string]string) []difference {
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

// ignored is what differs from run to run.
var ignored = []string{"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "namespace", "continue"}

// ageCell is how a table prints an age.
var ageCell = regexp.MustCompile(`^\d+s$`)

// leaves are the values of an object by their paths, without what differs from
// run to run.
func leaves(object map[string]any) map[string]string {
	out := map[string]string{}
	walk(object, "", out)
	return out
}

func walk(value any, at string, out map[string]string) {
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
			about := strings.HasSuffix(at, ".metadata") || at == ".details"
			if about && slices.Contains(ignored, key) {
				continue
			}
			walk(child, path, out)
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
			walk(child, at+index, out)
		}
	default:
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte(fmt.Sprint(v))
		}
		out[at] = string(text)
	}
}

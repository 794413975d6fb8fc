// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert answers how a release that another controller drives is written for
// Weir. It is pure: manifests in, manifests and remarks out. Each field that is read is
// taken out of the source; what is left at the end has no counterpart and is a remark, so
// that nothing is lost unsaid.
package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// source is a manifest of which fields are taken out.
type source struct {
	object map[string]any
	// cluster reports whether it has no namespace.
	cluster bool
	notes   []Note
}

// Note is something that has no counterpart, with its place in the source.
type Note struct {
	// Step of the result that it belongs to, from 1; 0 for all of it.
	Step int
	Text string
}

func (s *source) note(step int, format string, args ...any) {
	s.notes = append(s.notes, Note{step, fmt.Sprintf(format, args...)})
}

// take returns a field, and takes it out.
func take[T any](from map[string]any, path ...string) (value T, found bool) {
	for _, key := range path[:len(path)-1] {
		from, _ = from[key].(map[string]any)
	}
	last := path[len(path)-1]
	value, found = from[last].(T)
	if found {
		delete(from, last)
	}
	return value, found
}

// text returns a field of text, and takes it out.
func text(from map[string]any, path ...string) string {
	value, _ := take[string](from, path...)
	return value
}

// number returns a field that is a number, and takes it out.
func number(from map[string]any, path ...string) (int64, bool) {
	if n, ok := take[int64](from, path...); ok {
		return n, true
	}
	f, ok := take[float64](from, path...)
	return int64(f), ok
}

// names takes a name, or several: texts, or objects with one. What else an object has is
// left.
func (s *source) names(where string, from map[string]any, path ...string) []string {
	for _, key := range path[:len(path)-1] {
		from = child(from, key)
	}
	last := path[len(path)-1]
	switch v := from[last].(type) {
	case string:
		delete(from, last)
		return []string{v}
	case map[string]any:
		return []string{text(v, "name")}
	case []any:
		delete(from, last)
		var all []string
		for _, item := range v {
			item := map[string]any{last: item}
			all = append(all, s.names(where, item, last)...)
			s.left(0, where+"."+strings.Join(path[:len(path)-1], "."), item)
		}
		return all
	}
	return nil
}

// objects returns a list of objects, and takes it out.
func objects(from map[string]any, path ...string) []map[string]any {
	items, _ := take[[]any](from, path...)
	var all []map[string]any
	for _, item := range items {
		if object, ok := item.(map[string]any); ok {
			all = append(all, object)
		}
	}
	return all
}

// child is an object that stays where it is; what is not taken from it is left.
func child(from map[string]any, path ...string) map[string]any {
	for _, key := range path {
		from, _ = from[key].(map[string]any)
	}
	return from
}

// left writes each field that was not taken as a note.
func (s *source) left(step int, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			s.left(step, strings.TrimPrefix(path+"."+key, "."), v[key])
		}
	default:
		data, err := json.Marshal(v)
		if err != nil {
			data = []byte(fmt.Sprint(v))
		}
		short := []rune(string(data))
		if len(short) > mostText {
			short = append(short[:mostText], '…')
		}
		s.note(step, "%s: %s", path, string(short))
	}
}

// mostText is how much of a field a note has.
const mostText = 100

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

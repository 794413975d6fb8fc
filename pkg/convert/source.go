// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert converts releases of Argo Rollouts and Flagger to manifests for Weir. It is pure:
// manifests in, manifests and notes out. Each field that is read is removed from the source. Fields that
// remain at the end have no counterpart in Weir and become notes, so that nothing is lost silently.
package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// manifestSource is a manifest whose fields are removed while they are converted.
type manifestSource struct {
	object map[string]any
	// cluster reports whether the object is cluster-scoped.
	cluster bool
	notes   []Note
}

// NoteKind is the kind of a note. It is the first words of the note.
type NoteKind string

const (
	// NotConverted means that a field of the source has no counterpart in Weir.
	NotConverted NoteKind = "not converted"
	// Hint means that the result differs from the source, or that the user has to do something else.
	Hint NoteKind = "note"
	// Refused means that Weir would refuse the result.
	Refused NoteKind = "refused"
)

// Note describes something that a user has to know about a result.
type Note struct {
	Kind NoteKind
	// Step is the related step of the result, from 1; 0 for the whole manifest.
	Step int
	Text string
}

// String returns the note in one line.
func (n Note) String() string {
	return string(n.Kind) + ": " + strings.ReplaceAll(n.Text, "\n", " ")
}

// addNote adds a note about a field that has no counterpart.
func (s *manifestSource) addNote(step int, format string, args ...any) {
	s.notes = append(s.notes, Note{NotConverted, step, fmt.Sprintf(format, args...)})
}

// addHint adds a note about a difference, or about something that the user has to do.
func (s *manifestSource) addHint(step int, format string, args ...any) {
	s.notes = append(s.notes, Note{Hint, step, fmt.Sprintf(format, args...)})
}

// takeField removes a field and returns its value.
func takeField[T any](from map[string]any, path ...string) (value T, found bool) {
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

// takeText removes a string field and returns its value.
func takeText(from map[string]any, path ...string) string {
	value, _ := takeField[string](from, path...)
	return value
}

// takeNumber removes a number field and returns its value.
func takeNumber(from map[string]any, path ...string) (int64, bool) {
	if n, ok := takeField[int64](from, path...); ok {
		return n, true
	}
	f, ok := takeField[float64](from, path...)
	return int64(f), ok
}

// takeNames removes a field with one name or several and returns the names. Each name is a string, or an object
// with a field "name". Other fields of such objects remain.
func (s *manifestSource) takeNames(where string, from map[string]any, path ...string) []string {
	for _, key := range path[:len(path)-1] {
		from = getChild(from, key)
	}
	last := path[len(path)-1]
	switch v := from[last].(type) {
	case string:
		delete(from, last)
		return []string{v}
	case map[string]any:
		return []string{takeText(v, "name")}
	case []any:
		delete(from, last)
		var all []string
		for _, item := range v {
			item := map[string]any{last: item}
			all = append(all, s.takeNames(where, item, last)...)
			s.noteRemaining(0, where+"."+strings.Join(path[:len(path)-1], "."), item)
		}
		return all
	}
	return nil
}

// takeObjects removes a list of objects and returns it.
func takeObjects(from map[string]any, path ...string) []map[string]any {
	items, _ := takeField[[]any](from, path...)
	var all []map[string]any
	for _, item := range items {
		if object, ok := item.(map[string]any); ok {
			all = append(all, object)
		}
	}
	return all
}

// getChild returns a nested object without removing it.
func getChild(from map[string]any, path ...string) map[string]any {
	for _, key := range path {
		from, _ = from[key].(map[string]any)
	}
	return from
}

// noteRemaining adds a note for each remaining field.
func (s *manifestSource) noteRemaining(step int, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			s.noteRemaining(step, strings.TrimPrefix(path+"."+key, "."), v[key])
		}
	default:
		data, err := json.Marshal(v)
		if err != nil {
			data = []byte(fmt.Sprint(v))
		}
		short := []rune(string(data))
		if len(short) > maxValueLength {
			short = append(short[:maxValueLength], '…')
		}
		s.addNote(step, "%s: %s", path, string(short))
	}
}

// maxValueLength limits the number of characters of a value in a note.
const maxValueLength = 100

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

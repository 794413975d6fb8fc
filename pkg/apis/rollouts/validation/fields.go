// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-rollouts/weir/pkg/apis/rollouts"
)

// maxFieldErrors limits how many errors of each sort CheckFields finds.
const maxFieldErrors = 20

// FieldErrors are the errors of an object that cannot be decoded, or not without losing fields.
type FieldErrors struct {
	// WrongTypes are values of another JSON type than their field. Each error says what to write instead.
	WrongTypes field.ErrorList
	// Unknown are fields that the type does not have.
	Unknown []UnknownField
}

// UnknownField is a field that its type does not have.
type UnknownField struct {
	Path *field.Path
	// Hint says which field the user may have meant, or which fields there are; empty if neither is short.
	Hint string
}

// String describes the field, and what to write instead.
func (u UnknownField) String() string {
	text := fmt.Sprintf("unknown field %q", u.Path)
	if u.Hint != "" {
		text += ": " + u.Hint
	}
	return text
}

// CheckFields compares decoded JSON, which may be a part of an object, with the type of the object that will be decoded
// from it. The decoder itself reports the first wrong type only, by the names of Go types and without the index of a
// list.
func CheckFields(object, value any) FieldErrors {
	c := fieldChecker{}
	c.check(reflect.TypeOf(object), value, nil)
	return c.found
}

// CheckJSONPatch compares the values of a decoded JSON patch with the type of the patched object.
func CheckJSONPatch(object, operations any) FieldErrors {
	c, t := fieldChecker{}, reflect.TypeOf(object)
	list, _ := operations.([]any)
	for _, o := range list {
		operation, _ := o.(map[string]any)
		pointer, _ := operation["path"].(string)
		if op := operation["op"]; op != "add" && op != "replace" || !strings.HasPrefix(pointer, "/") {
			continue
		}
		if of, path, ok := c.resolve(t, strings.Split(pointer[1:], "/")); ok {
			c.check(of, operation["value"], path)
		}
	}
	return c.found
}

// fieldChecker collects the errors of an object.
type fieldChecker struct {
	found FieldErrors
	// step is the number of the step that contains the value; 0 outside of steps.
	step int
}

// resolve returns the type and the path that a JSON pointer refers to. It returns false if it finds no type.
func (c *fieldChecker) resolve(t reflect.Type, tokens []string) (reflect.Type, *field.Path, bool) {
	var path *field.Path
	c.step = 0
	list := ""
	for _, token := range tokens {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		t = pointedTo(t)
		if decodesItself(t) {
			return nil, nil, false
		}
		switch t.Kind() {
		case reflect.Struct:
			of, ok := jsonFields(t)[token]
			if !ok {
				return nil, nil, false
			}
			t, path, list = of, path.Child(token), token
		case reflect.Map:
			t, path = t.Elem(), path.Key(token)
		case reflect.Slice:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 {
				i = 0 // "-" appends an element, and its index is not known
			} else if list == "steps" {
				c.step = i + 1
			}
			t, path = t.Elem(), path.Index(i)
		default:
			return nil, nil, false
		}
	}
	return t, path, true
}

func pointedTo(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// decodesItself reports whether the type has a decoder of its own, such as a time.
func decodesItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(unmarshaler) || t.Kind() == reflect.Interface || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// jsonFields returns the types of the fields of a struct by their JSON names.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && (f.Anonymous || options == "inline"):
			maps.Copy(fields, jsonFields(pointedTo(f.Type)))
		case f.IsExported():
			fields[name] = f.Type
		}
	}
	return fields
}

func (c *fieldChecker) check(t reflect.Type, value any, path *field.Path) {
	t = pointedTo(t)
	if n, ok := value.(float64); ok && n == math.Trunc(n) && math.Abs(n) < 1<<53 {
		value = int64(n) // some decoders have no integers
	}
	switch {
	case value == nil:
		return
	case t == reflect.TypeFor[intstr.IntOrString]():
		c.checkIntOrString(value, path)
		return
	case decodesItself(t):
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		c.checkStruct(t, value, path)
	case reflect.Map:
		entries, ok := value.(map[string]any)
		if !ok {
			c.wrong(path, value, "write a map of names and values")
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			c.check(t.Elem(), entries[key], path.Key(rollouts.Clean(key, rollouts.MaxUser)))
		}
	case reflect.Slice:
		entries, ok := value.([]any)
		if !ok {
			c.wrong(path, value, `write a list; in YAML each entry begins with "- "`)
		}
		for i, entry := range entries {
			if lastName(path) == "steps" && pointedTo(t.Elem()).Kind() == reflect.Struct {
				c.step = i + 1
			}
			c.check(t.Elem(), entry, path.Index(i))
		}
		if lastName(path) == "steps" {
			c.step = 0
		}
	case reflect.String:
		c.checkString(value, path)
	case reflect.Bool:
		c.checkBool(value, path)
	case reflect.Int, reflect.Int32, reflect.Int64:
		c.checkInteger(t, value, path)
	}
}

func (c *fieldChecker) checkStruct(t reflect.Type, value any, path *field.Path) {
	object, ok := value.(map[string]any)
	fields := jsonFields(t)
	if !ok && path == nil {
		return // the decoder reports that the whole body is no object
	}
	if !ok {
		_, isPause := fields["duration"]
		if seconds, isTime := toSeconds(value); isPause && isTime {
			c.wrong(path, value, fmt.Sprintf("write {duration: %d}, in seconds", seconds))
		} else {
			c.wrong(path, value, "write an object with "+listNames(fields))
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		of, known := fields[name]
		switch {
		case known:
			c.check(of, object[name], child(path, name))
		case !strings.HasPrefix(name, "$") && len(c.found.Unknown) < maxFieldErrors: // $patch and others are instructions of a patch
			c.found.Unknown = append(c.found.Unknown, UnknownField{child(path, rollouts.Clean(name, longestName)), hint(name, fields)})
		}
	}
}

// child is path.Child for a path that may be nil.
func child(path *field.Path, name string) *field.Path {
	if path == nil {
		return field.NewPath(name)
	}
	return path.Child(name)
}

// lastName returns the name of the field that a path ends with; empty for an entry of a list.
func lastName(path *field.Path) string {
	text := path.String()
	return text[strings.LastIndexByte(text, '.')+1:]
}

// wrong adds an error, with the number of the step.
func (c *fieldChecker) wrong(path *field.Path, value any, detail string) {
	if len(c.found.WrongTypes) >= maxFieldErrors {
		return
	}
	if c.step > 0 {
		detail = fmt.Sprintf("step %d: %s", c.step, detail)
	}
	switch v := value.(type) {
	case map[string]any:
		value = "an object"
	case []any:
		value = "a list"
	case string:
		value = rollouts.Clean(v, maxShownValue)
	}
	c.found.WrongTypes = append(c.found.WrongTypes, field.Invalid(path, value, detail))
}

// maxShownValue limits the part of a value that an error shows.
const maxShownValue = 64

// percentages are the text fields whose value is a percentage.
var percentages = []string{"traffic", "successRate", "share", "margin"}

func (c *fieldChecker) checkString(value any, path *field.Path) {
	switch v := value.(type) {
	case string:
	case int64, float64:
		c.wrong(path, value, fmt.Sprintf("write a text in quotes: %q", quoted(v, lastName(path))))
	case bool:
		other := map[bool]string{true: "yes", false: "no"}[v]
		c.wrong(path, value, fmt.Sprintf("write a text in quotes, such as %q; without quotes, YAML reads %s and %s as a truth value", strconv.FormatBool(v), other, strconv.FormatBool(v)))
	default:
		c.wrong(path, value, "write a text")
	}
}

// quoted returns the text that a number means in a field.
func quoted(number any, name string) string {
	if !slices.Contains(percentages, name) {
		return fmt.Sprint(number)
	}
	if share, ok := number.(float64); ok && share > 0 && share < 1 {
		number = math.Round(share*1e6) / 1e4 // 0.2 means 20%
	}
	return fmt.Sprint(number) + "%"
}

// truths are texts that people and YAML use for truth values.
var truths = map[string]bool{"true": true, "yes": true, "on": true, "false": false, "no": false, "off": false}

func (c *fieldChecker) checkBool(value any, path *field.Path) {
	if _, ok := value.(bool); ok {
		return
	}
	text, _ := value.(string)
	if truth, ok := truths[strings.ToLower(text)]; ok {
		c.wrong(path, value, fmt.Sprintf("write %t, without quotes", truth))
		return
	}
	c.wrong(path, value, "write true or false")
}

func (c *fieldChecker) checkInteger(t reflect.Type, value any, path *field.Path) {
	unit := unitOf(lastName(path))
	switch v := value.(type) {
	case int64:
		if t.Kind() == reflect.Int32 && (v > math.MaxInt32 || v < math.MinInt32) {
			c.wrong(path, value, fmt.Sprintf("write a whole number up to %d", math.MaxInt32))
		}
	case float64:
		if v != math.Trunc(v) {
			c.wrong(path, value, "write a whole number"+unit.suffix())
		}
	case string:
		if n, ok := unit.parse(v); ok {
			c.wrong(path, value, fmt.Sprintf("write a whole number%s, without quotes: %d", unit.suffix(), n))
			return
		}
		c.wrong(path, value, "write a whole number"+unit.suffix())
	default:
		c.wrong(path, value, "write a whole number"+unit.suffix())
	}
}

// timeUnit is the unit of a number; the zero value is a number without a unit.
type timeUnit struct {
	name   string
	length time.Duration
}

// unitOf returns the unit of a field with a whole number.
func unitOf(name string) timeUnit {
	switch {
	case strings.HasSuffix(name, "Milliseconds"):
		return timeUnit{"milliseconds", time.Millisecond}
	case name == "duration" || strings.HasSuffix(name, "Seconds"):
		return timeUnit{"seconds", time.Second}
	default:
		return timeUnit{}
	}
}

func (u timeUnit) suffix() string {
	if u.name == "" {
		return ""
	}
	return " of " + u.name
}

// parse returns the whole number that a text means: "600", "20%", or a duration such as "10m".
func (u timeUnit) parse(text string) (int64, bool) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 32); err == nil {
		return n, true
	}
	d, err := time.ParseDuration(text)
	if err != nil || u.length == 0 || d%u.length != 0 || d/u.length > math.MaxInt32 {
		return 0, false
	}
	return int64(d / u.length), true
}

// toSeconds returns the number of seconds that a value means.
func toSeconds(value any) (int64, bool) {
	switch v := value.(type) {
	case int64:
		return v, true
	case string:
		return timeUnit{"seconds", time.Second}.parse(v)
	default:
		return 0, false
	}
}

func (c *fieldChecker) checkIntOrString(value any, path *field.Path) {
	switch v := value.(type) {
	case int64, string:
		return
	case float64:
		if percent := v * 100; v > 0 && v < 1 && percent == math.Trunc(percent) {
			c.wrong(path, value, fmt.Sprintf(`write a whole number, or a percentage in quotes: "%g%%"`, percent))
			return
		}
	}
	c.wrong(path, value, `write a whole number such as 2, or a percentage in quotes such as "20%"`)
}

// otherNames are fields of other tools, with the field of a step that has their meaning.
var otherNames = map[string]string{"setWeight": "traffic", "weight": "traffic", "setCanaryScale": "replicas"}

// longestName is longer than any field, so that a longer name cannot be a misspelling.
const longestName = 64

// maxListed limits the number of fields that a hint lists.
const maxListed = 12

// hint says which field the user may have meant by a name.
func hint(name string, fields map[string]reflect.Type) string {
	best, least := "", 1+max(1, len(name)/4)
	for _, known := range slices.Sorted(maps.Keys(fields)) {
		if len(name) > longestName {
			break
		}
		if d := editDistance(strings.ToLower(name), strings.ToLower(known)); d < least {
			best, least = known, d
		}
	}
	if other := otherNames[name]; best == "" && fields[other] != nil {
		best = other
	}
	switch {
	case best != "":
		return fmt.Sprintf("did you mean %q?", best)
	case len(fields) <= maxListed:
		return "the fields here are " + listNames(fields)
	default:
		return ""
	}
}

// listNames lists the fields of an object.
func listNames(fields map[string]reflect.Type) string {
	names := slices.Sorted(maps.Keys(fields))
	if len(names) > maxListed {
		names = append(names[:maxListed:maxListed], "…")
	}
	return strings.Join(names, ", ")
}

// editDistance is the number of characters that must be inserted, removed, replaced, or swapped with the next one, to
// make b of a.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

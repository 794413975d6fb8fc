// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	lua "github.com/yuin/gopher-lua"
)

// converter turns values into those of scripts and back. Lua knows one kind of
// empty table. One that came in as a list or as an object is remembered and
// leaves as such. One that the script made is as absent as it is in OpenKruise,
// whose scripts say by it that a field is to go.
type converter struct {
	b *budget
	// lists tells of every table that came in whether it was a list.
	lists map[*lua.LTable]bool
	// texts is the length of all texts that went out.
	texts int
}

// exact is the first whole number that may be another after a script.
const exact = 1 << 53

// in turns a value into one of scripts.
func (c *converter) in(v any, path string, depth int) (lua.LValue, error) {
	if depth > maxValues {
		return nil, fmt.Errorf("%.100s… is nested too deep", path)
	}
	if err := c.b.step(stepsOfInstruction); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case []any:
		return c.list(v, path, depth)
	case map[string]any:
		return c.object(v, path, depth)
	default:
		return c.scalar(v, path)
	}
}

// scalar turns a value that has no others in it into one of scripts.
func (c *converter) scalar(v any, path string) (lua.LValue, error) {
	switch v := v.(type) {
	case nil:
		return lua.LNil, nil
	case bool:
		return lua.LBool(v), nil
	case string:
		return lua.LString(v), c.b.text(len(v))
	case int:
		return c.number(float64(v), path)
	case int32:
		return c.number(float64(v), path)
	case int64:
		return c.number(float64(v), path)
	case float64:
		return lua.LNumber(v), nil
	default:
		return nil, fmt.Errorf("%s is a %T", path, v)
	}
}

func (c *converter) number(n float64, path string) (lua.LValue, error) {
	if math.Abs(n) >= exact {
		return nil, fmt.Errorf("%s is a number too large for a script", path)
	}
	return lua.LNumber(n), nil
}

func (c *converter) list(v []any, path string, depth int) (lua.LValue, error) {
	if len(v) >= maxList {
		return nil, fmt.Errorf("%s has more than %d entries", path, maxList-1)
	}
	t, err := c.made(true, len(v))
	if err != nil {
		return nil, err
	}
	for i, item := range v {
		entry, err := c.in(item, at(path, i), depth+1)
		if err != nil {
			return nil, err
		}
		t.Append(entry)
	}
	return t, nil
}

func (c *converter) object(v map[string]any, path string, depth int) (lua.LValue, error) {
	t, err := c.made(false, len(v))
	if err != nil {
		return nil, err
	}
	// In order, since that is the order in which a script will see them.
	for _, k := range slices.Sorted(maps.Keys(v)) {
		entry, err := c.in(v[k], under(path, k), depth+1)
		if err != nil {
			return nil, err
		}
		if entry != lua.LNil {
			t.RawSetString(k, entry)
		}
	}
	return t, nil
}

// maxPath is how long the path to a value may be in a message.
const maxPath = 200

// under is the path to a part of what is at a path; one that is too long ends there.
func under(path, name string) string {
	if len(path)+len(name) > maxPath {
		return strings.TrimSuffix(path, "…") + "…"
	}
	return path + "." + name
}

func at(path string, i int) string {
	if len(path) > maxPath {
		return path
	}
	return path + "[" + strconv.Itoa(i) + "]"
}

func (c *converter) made(list bool, size int) (*lua.LTable, error) {
	t := &lua.LTable{Metatable: lua.LNil}
	c.lists[t] = list
	return t, c.b.take(sizeOfTable + size*sizeOfValue)
}

// table is what an object has become.
func (c *converter) table(t *lua.LTable, path string) (map[string]any, error) {
	v, err := c.out(t, path, nil)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case map[string]any:
		return v, nil
	case []any:
		if len(v) > 0 {
			return nil, fmt.Errorf("%s is a list and must have names", path)
		}
	}
	return map[string]any{}, nil
}

// out turns a value of a script back. Above are the tables that it is in.
func (c *converter) out(v lua.LValue, path string, above []*lua.LTable) (any, error) {
	if err := c.b.step(1); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case *lua.LNilType:
		return nil, nil
	case lua.LBool:
		return bool(v), nil
	case lua.LString:
		if !utf8.ValidString(string(v)) {
			return nil, fmt.Errorf("%s is no valid text", path)
		}
		c.texts += len(v)
		return string(v), c.b.take(sizeOfValue + len(v))
	case lua.LNumber:
		return whole(float64(v), path)
	case *lua.LTable:
		if slices.Contains(above, v) {
			return nil, fmt.Errorf("%s contains itself", path)
		}
		if len(above) > maxValues {
			return nil, fmt.Errorf("%.100s… is nested too deep", path)
		}
		return c.entries(v, path, append(above, v))
	default:
		return nil, fmt.Errorf("%s is a %s", path, v.Type())
	}
}

func whole(n float64, path string) (any, error) {
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return nil, fmt.Errorf("%s is no number", path)
	case n == math.Trunc(n) && math.Abs(n) < exact:
		return int64(n), nil
	default:
		return n, nil
	}
}

// entries is a table as a list or an object; nil if it is empty and was neither.
func (c *converter) entries(t *lua.LTable, path string, above []*lua.LTable) (any, error) {
	if err := c.b.take(sizeOfTable); err != nil {
		return nil, err
	}
	if err := c.b.walk(places(t) + gone(t)); err != nil {
		return nil, err
	}
	names, numbers, err := keys(t, path)
	if err == nil {
		err = c.named(names)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case numbers > 0:
		return c.listOf(t, numbers, path, above)
	case len(names) > 0:
		return c.objectOf(t, names, path, above)
	default:
		return c.empty(t), nil
	}
}

// named counts the sorting of names.
func (c *converter) named(names []string) error {
	size := 0
	for _, name := range names {
		size += entriesOfStep + len(name)
	}
	c.texts += size
	return c.b.look(size * bits.Len(uint(len(names))))
}

func (c *converter) listOf(t *lua.LTable, size int, path string, above []*lua.LTable) (any, error) {
	list := make([]any, size)
	for i := range list {
		entry, err := c.out(t.RawGetInt(i+1), at(path, i), above)
		if err != nil {
			return nil, err
		}
		// An entry that went would move those after it.
		if entry == nil {
			entry = map[string]any{}
		}
		list[i] = entry
	}
	return list, nil
}

func (c *converter) objectOf(t *lua.LTable, names []string, path string, above []*lua.LTable) (any, error) {
	object := make(map[string]any, len(names))
	for _, k := range names {
		v, err := c.out(t.RawGetString(k), under(path, k), above)
		if err != nil {
			return nil, err
		}
		if v != nil {
			object[k] = v
		}
	}
	return object, nil
}

func (c *converter) empty(t *lua.LTable) any {
	list, known := c.lists[t]
	switch {
	case !known:
		return nil
	case list:
		return []any{}
	default:
		return map[string]any{}
	}
}

// keys are the names in a table, or how many entries it has as a list.
func keys(t *lua.LTable, path string) (names []string, numbers int, err error) {
	last := 0
	t.ForEach(func(k, _ lua.LValue) {
		switch k := k.(type) {
		case lua.LString:
			if !utf8.ValidString(string(k)) {
				err = fmt.Errorf("a name in %s is no valid text", path)
			}
			names = append(names, string(k))
		case lua.LNumber:
			n, bad := place(float64(k), path)
			if bad != nil {
				err = bad
				return
			}
			numbers, last = numbers+1, max(last, n)
		default:
			err = fmt.Errorf("%s has an entry by a %s", path, k.Type())
		}
	})
	switch {
	case err != nil:
	case numbers > 0 && len(names) > 0:
		err = fmt.Errorf("%s has both numbers and names as keys", path)
	case last != numbers:
		err = fmt.Errorf("%s is a list with gaps", path)
	}
	slices.Sort(names)
	return names, numbers, err
}

// place is a number as the place of an entry in a list.
func place(n float64, path string) (int, error) {
	if n != math.Trunc(n) || n < 1 || n > maxList {
		return 0, fmt.Errorf("%s has an entry of number %v; a list counts from 1", path, n)
	}
	return int(n), nil
}

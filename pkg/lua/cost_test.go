// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"strings"
	"testing"
)

// dear are what takes longest of what a script can do at once: what comes before, and
// then what is done again and again. Each costs so many steps at least, one of which
// is some nanoseconds of work.
var dear = map[string]struct {
	before, do string
	steps      int
}{
	"nothing":                      {``, ``, 0},
	"the end of an empty list":     {`t[16000] = 1 t[16000] = nil`, `x = #t`, 16000 / entriesOfStep},
	"getn":                         {`t[16000] = 1 t[16000] = nil`, `table.getn(t)`, 16000 / entriesOfStep},
	"maxn":                         {`t[16000] = 1 t[16000] = nil`, `table.maxn(t)`, 16000 / entriesOfStep},
	"appending to an empty list":   {`t[16000] = 1 t[16000] = nil`, `table.insert(t, 1) t[1] = nil`, 16000 / entriesOfStep},
	"inserting nothing":            {`t[16000] = 1 t[16000] = nil`, `table.insert(t, 1, nil)`, 16000 / entriesOfStep},
	"removing the first":           {`t[16000] = 1`, `table.remove(t, 1)`, 15000 / entriesOfStep},
	"joining an empty list":        {`t[16000] = 1 t[16000] = nil`, `table.concat(t)`, 16000 / entriesOfStep},
	"next of a list with gaps":     {`t[16000] = 1`, `next(t)`, 15999 / entriesOfStep},
	"next of names that are gone":  {gone5000, `next(t)`, 5000 / entriesOfStep},
	"pairs of names that are gone": {gone5000, `for k in pairs(t) do end`, 5000 / entriesOfStep},
	"json of a list with gaps":     {`t[16000] = 1 t[16000] = nil`, `json.encode(t)`, 16000 / entriesOfStep},

	"comparing texts":          {long, `x = a < b`, size / bytesOfStep},
	"comparing texts, too":     {long, `x = a >= b`, size / bytesOfStep},
	"equal texts":              {long, `x = a == b`, size / bytesOfStep},
	"unequal texts":            {long, `x = a ~= b`, size / bytesOfStep},
	"rawequal":                 {long, `rawequal(a, b)`, size / bytesOfStep},
	"a text as a number":       {digits, `x = d + 1`, size / bytesOfStep},
	"a number and a text":      {digits, `x = 1 - d`, size / bytesOfStep},
	"a text less than nothing": {digits, `x = -d`, size / bytesOfStep},
	"tonumber":                 {digits, `tonumber(d)`, size / bytesOfStep},
	"math of a text":           {digits, `math.floor(d)`, size / bytesOfStep},
	"a place that is a text":   {digits, `pcall(string.sub, "a", d)`, size / bytesOfStep},
	"an entry by a text":       {long, `x = t[a]`, size / bytesOfStep},
	"setting it":               {long, `t[a] = 1`, size / bytesOfStep},
	"setting it raw":           {long, `rawset(t, a, 1)`, size / bytesOfStep},
	"getting it raw":           {long, `rawget(t, a)`, size / bytesOfStep},
	"a table of it":            {long, `x = {[a] = 1}`, size / bytesOfStep},
	"an entry by a long word":  {``, `x = t["` + strings.Repeat("w", 50000) + `"]`, 50000 / bytesOfStep},
	"sorting long texts":       {long + `for i = 1, 100, 2 do t[i], t[i + 1] = b, a end`, `table.sort(t)`, 100 * size / bytesOfStep * 7},
	"sorting":                  {`for i = 1, 3000 do t[i] = (i * 7919) % 3001 end`, `table.sort(t)`, 3000 * 12},
	"json of long names":       {long + `t[a] = 1`, `json.encode(t)`, size / bytesOfStep},

	"a remainder":             {`local l, s = 1e308, 1e-308`, `x = l % s`, stepsOfMod},
	"fmod":                    {`local l, s = 1e308, 1e-308`, `math.fmod(l, s)`, stepsOfMod},
	"mod":                     {`local l, s = 1e308, 1e-308`, `math.mod(l, s)`, stepsOfMod},
	"a long number":           {``, `("%99.99f"):format(1e308)`, stepsOfFormat},
	"many values":             {`for i = 1, 4000 do t[i] = i end`, `f(unpack(t))`, 4000 / valuesOfStep},
	"many values as they are": {`local function g(...) return assert(assert(assert(...))) end for i = 1, 2500 do t[i] = i end`, `f(g(unpack(t)))`, 6 * 2500 / valuesOfStep},
	"many bytes":              {`local s = ("x"):rep(4000)`, `f(s:byte(1, -1))`, 4000},
	"a list of nothing":       {``, `x = {unpack(t, 1, 4000)}`, 4000 / valuesOfStep},
	"a function of variables": {captured, `x = function() return ` + strings.Join(variables, ",") + ` end`, len(variables) * len(variables) / capturesOfStep},
	"calls below variables":   {captured + ` local keep = function() return ` + strings.Join(variables, ",") + ` end`, `f()`, 0},

	"a frontier of a long set": {`local s, p = ("x"):rep(4000), "%f[" .. ("y"):rep(4000) .. "]"`, `s:find(p)`, 4000 * 4000 / bytesOfStep},
	"a long set":               {`local p = "[" .. ("y"):rep(40000) .. "]"`, `(""):find(p)`, 40000 / bytesOfStep},
	"a search":                 {long, `a:find(b, 1, true)`, size / bytesOfStep},
	"a search for half of it":  {long + `local h = a:sub(1, #a / 2) .. "y"`, `a:find(h, 1, true)`, size / bytesOfStep},
	"an error far below":       {`local function g(n) if n == 0 then error("x") end return 1 + g(n - 1) end`, `pcall(g, 150)`, stepsOfCatch},
	"a chain of tables":        {`local u = {} for i = 1, 9 do u = setmetatable({}, {__index = u}) end`, `x = u.x`, 0},
	"reading JSON":             {`local j = "[" .. ("1,"):rep(10000) .. "1]"`, `json.decode(j)`, 10001 * stepsOfInstruction},
}

const (
	size     = 100_000
	long     = `local a = ("x"):rep(99999) .. "x" local b = ("x"):rep(99999) .. "x" `
	digits   = `local d = (" "):rep(99999) .. "1" `
	gone5000 = `for i = 1, 5000 do t["k" .. i] = 1 end for i = 1, 5000 do t["k" .. i] = nil end`
)

var variables, captured = func() ([]string, string) {
	var names []string
	var declared strings.Builder
	for i := range 50 {
		name := "v" + strings.Repeat("x", i)
		names = append(names, name)
		declared.WriteString("local " + name + " = 1 ")
	}
	return names, declared.String()
}()

func costing(before, do string) string {
	return "local t, x = {}, nil local function f() end " + before + "\n" + do + "\nreturn {}"
}

// TestCosts runs each once, and counts.
func TestCosts(t *testing.T) {
	for name, tc := range dear {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with, without := newBudget(), newBudget()
			for b, do := range map[*budget]string{with: tc.do, without: ""} {
				if _, err := b.run(costing(tc.before, do), nil); err != nil && b.over == nil {
					t.Fatal(err)
				}
			}
			if got := with.steps - without.steps; got < tc.steps && with.over == nil {
				t.Errorf("%d steps for %s, want %d at least", got, tc.do, tc.steps)
			}
		})
	}
}

// BenchmarkWorst runs each again and again, until the script is ended. None takes
// much longer than nothing does.
func BenchmarkWorst(b *testing.B) {
	for name, tc := range dear {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				if _, err := Run(costing(tc.before, "while true do "+tc.do+" end"), nil); err == nil {
					b.Fatal("it ended by itself")
				}
			}
		})
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

const (
	noKeys  = "the result has keys that are neither all names nor all numbers from 1 without a gap"
	tooLong = "takes more than 200000 instructions; it may never end"
	tooBig  = "makes a text of more than 256 KiB"
)

// TestEscapes runs scripts that would harm the process. Each is refused with a reason.
func TestEscapes(t *testing.T) {
	big := `local s = ("x"):rep(1000) s = s:rep(200); `
	for name, tc := range map[string]struct{ script, want string }{
		"a loop without end":          {`while true do end`, tooLong},
		"a loop by goto":              {`::a:: goto a`, tooLong},
		"a long count":                {`for i = 1, 1e18 do end`, tooLong},
		"a loop that catches errors":  {`while true do pcall(function() while true do end end) end`, tooLong},
		"an error handler that loops": {`xpcall(error, function() while true do end end)`, tooLong},
		"an iterator without end":     {`for _ in function() return 1 end do end`, tooLong},
		"a metamethod that loops":     {`local t = setmetatable({}, {__index = function() while true do end end}) return {t.x}`, tooLong},
		"a comparison that loops":     {`local t = {} for i = 1, 100 do t[i] = i end table.sort(t, function() while true do end end)`, tooLong},
		"a replacement that loops":    {`("a"):gsub("a", function() while true do end end)`, tooLong},
		"next over what is gone":      {`local t = {} for i = 1, 9000 do t["k" .. i] = 1 end for i = 1, 9000 do t["k" .. i] = nil end while true do next(t) end`, tooLong},

		"recursion":                  {`local function f() return 1 + f() end f()`, "stack overflow"},
		"tail recursion":             {`local function f() return f() end f()`, tooLong},
		"recursion through pcall":    {`local function f() pcall(f) return 1 + f() end f()`, tooLong},
		"recursion through tostring": {`local t t = setmetatable({}, {__tostring = function() return tostring(t) end}) tostring(t)`, "stack overflow"},
		"recursion through gsub":     {`local function f() return (("a"):gsub("a", f)) end f()`, "stack overflow"},
		"many values":                {`local t = {unpack({}, 1, 1e8)}`, "registry overflow"},
		"many bytes as values":       {big + `local t = {s:byte(1, -1)}`, "registry overflow"},

		"doubling a text":             {`local s = "x" while true do s = s .. s end`, tooBig},
		"many texts":                  {big + `local t = {} while true do t[#t + 1] = s .. #t end`, tooLong},
		"upper and upper":             {big + `local t = {} while true do t[#t + 1] = s:upper() end`, tooLong},
		"a repetition":                {`("x"):rep(1e9)`, tooBig},
		"a repetition of long ones":   {big + `s:rep(1e15)`, tooBig},
		"a concatenation":             {big + `local t = {} for i = 1, 100 do t[i] = s end local x = table.concat(t)`, tooBig},
		"a concatenation's separator": {big + `local t = {} for i = 1, 100 do t[i] = "" end local x = table.concat(t, s)`, tooBig},
		"errors that are long":        {big + `local t = {} while true do local _, e = pcall(error, s .. #t) t[#t + 1] = e end`, tooLong},
		"errors by a long key":        {big + `local t = {} while true do local _, e = pcall(function() return (nil)[s] end) t[#t + 1] = e end`, tooLong},

		"many sorts":         {`local t = {} for i = 1, 5000 do t[i] = 5000 - i end while true do table.sort(t) end`, tooLong},
		"many moves":         {`local t = {} for i = 1, 16000 do t[i] = i end while true do table.insert(t, 1, 1) end`, tooLong},
		"many removals":      {`local t = {} for i = 1, 16000 do t[i] = i end while true do table.remove(t, 1) t[#t + 1] = 1 end`, tooLong},
		"many unpackings":    {`local t = {} while true do unpack(t, 1, 60000) end`, tooLong},
		"many arguments":     {`local function f(...) while true do select("#", ...) end end f(unpack({}, 1, 30000))`, tooLong},
		"many joined lists":  {`local t = {} for i = 1, 16000 do t[i] = "" end while true do table.concat(t) end`, tooLong},
		"many searches":      {`local s = ("x"):rep(16000) while true do s:gsub("x", "y") end`, tooLong},
		"many caught errors": {`while true do pcall(error, "x") end`, tooLong},

		"many tables":             {`local t = {} while true do t = {t} end`, tooLong},
		"many tables in one":      {`local t = {} while true do t[#t + 1] = {{a = 1}, {a = 1}} end`, tooLong},
		"entries by a long key":   {`local t = {} for i = 1, 1e9 do t[i .. ("x"):rep(1000)] = i end`, tooLong},
		"JSON that grows":         {`local s, t = ("<"):rep(200000), {} for i = 1, 100 do t[i] = s end local x = json.encode(t)`, tooBig},
		"JSON of little for much": {`local t = {} while true do t[#t + 1] = json.decode("[" .. ("{},"):rep(1000) .. "1]") end`, tooLong},
		"a result that is shared": {`local t = {1} for i = 1, 30 do t = {t, t} end return t`, tooLong},
		"JSON that is shared":     {`local t = {1} for i = 1, 30 do t = {t, t} end return {json.encode(t)}`, tooLong},
		"a result that is deep":   {`local t = {} for i = 1, 1000 do t = {a = t} end return t`, "nested too deep"},
		"JSON that is deep":       {`local v, e = json.decode(("["):rep(1000) .. ("]"):rep(1000)) error(e, 0)`, "nested too deep"},
		"a result in itself":      {`obj.x = {obj} return obj`, "the result is nested too deep, or contains itself"},

		"a search in a long text":     {big + `s:gsub("x*b", "")`, "a text of more than 16 KiB cannot be searched"},
		"a pattern that does not end": {`("a"):find("[a")`, "unexpected EOS"},
		"a pattern that closes":       {`("a"):find("a)")`, "invalid ')' at 0"},
		"a pattern that stays open":   {`("a"):find("(a")`, "unfinished capture"},

		"os":            {`os.execute("true")`, "script:1: attempt to index a non-table object(nil)"},
		"io":            {`io.open("/etc/passwd")`, "script:1: attempt to index a non-table object(nil)"},
		"debug":         {`debug.getregistry()`, "script:1: attempt to index a non-table object(nil)"},
		"package":       {`package.loadlib("x", "y")`, "script:1: attempt to index a non-table object(nil)"},
		"coroutine":     {`coroutine.wrap(print)`, "script:1: attempt to index a non-table object(nil)"},
		"channel":       {`channel.make()`, "script:1: attempt to index a non-table object(nil)"},
		"require":       {`require("os")`, "script:1: attempt to call a non-function object"},
		"dofile":        {`dofile("/etc/passwd")`, "script:1: attempt to call a non-function object"},
		"loadfile":      {`loadfile("/etc/passwd")`, "script:1: attempt to call a non-function object"},
		"loadstring":    {`loadstring("return 1")`, "script:1: attempt to call a non-function object"},
		"load":          {`load(function() end)`, "script:1: attempt to call a non-function object"},
		"module":        {`module("x")`, "script:1: attempt to call a non-function object"},
		"setfenv":       {`setfenv(1, {})`, "script:1: attempt to call a non-function object"},
		"getfenv":       {`getfenv(0)`, "script:1: attempt to call a non-function object"},
		"newproxy":      {`newproxy(true)`, "script:1: attempt to call a non-function object"},
		"garbage":       {`collectgarbage()`, "script:1: attempt to call a non-function object"},
		"chance":        {`return {math.random()}`, "script:1: attempt to call a non-function object"},
		"string.dump":   {`string.dump(print)`, "script:1: attempt to call a non-function object"},
		"by the method": {`("x"):dump()`, "script:1: attempt to call a non-function object"},

		"not Lua":                {`return {`, "reading the script:"},
		"empty":                  {" \n", "must return a table, and returns nil"},
		"too long":               {"--" + strings.Repeat("x", maxScript), "script is longer than 64 KiB"},
		"nothing returned":       {`local x = 1`, "must return a table, and returns nil"},
		"a text returned":        {`return "x"`, "must return a table, and returns string"},
		"a list returned":        {`return {1, 2}`, "the result is a list and must have names"},
		"a function in it":       {`return {a = {print}}`, "the result.a[0] is a function"},
		"a number as a name":     {`return {[0.5] = 1}`, noKeys},
		"zero as a name":         {`return {[0] = 1}`, noKeys},
		"a boolean as a name":    {`return {[true] = 1}`, noKeys},
		"no number":              {`return {a = 0/0}`, "the result.a is no number"},
		"without end":            {`return {a = -1/0}`, "the result.a is no number"},
		"bytes that are no text": {`return {a = "\255"}`, "the result.a is no valid text"},
		"a name that is no text": {`return {["\255"] = 1}`, noKeys},
		"an error":               {"\nerror('no such route')", "script:2: no such route"},
		"an error with a place":  {`error("no such route", 0)`, "no such route"},
		"an error that is none":  {`error({code = 1})`, "raised an error that is no text"},
		"an error of nothing":    {`error()`, "bad argument"},
		"a long error":           {big + `error(s, 0)`, "xxx…"},
		"an index of nothing":    {`return {obj.spec.x}`, "script:1: attempt to index"},
		"a call of nothing":      {`nothing()`, "attempt to call"},
		"joining nothing":        {"\n\nreturn {a = 'x' .. nil}", "script:3: cannot perform concat operation between string and nil"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Run(tc.script, map[string]any{"weight": "20"})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one that says %q", err, tc.want)
			}
			if err != nil && (len(err.Error()) > maxMessage+100 || strings.Contains(err.Error(), "0x") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("error %q is not one line for people", err)
			}
		})
	}
}

// TestWhatCannotComeIn has objects that would be changed by a conversion to Lua.
func TestWhatCannotComeIn(t *testing.T) {
	deep := map[string]any{}
	for range 1000 {
		deep = map[string]any{"a": deep}
	}
	for want, in := range map[string]map[string]any{
		"obj.a.b[0] is a number too large for a script": {"a": map[string]any{"b": []any{int64(1) << 60}}},
		"is nested too deep":                            deep,
		"obj.l has more than 16383 entries":             {"l": make([]any, maxList)},
		"obj.x is a struct {}":                          {"x": struct{}{}},
	} {
		if _, err := Run("return obj", in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}

// TestSearchTime checks that the limit of pattern searches counts CPU time instead of elapsed time.
func TestSearchTime(t *testing.T) {
	state := lua.NewState()
	defer state.Close()
	b := newBudget(state)
	defer b.cancel(nil)
	if b.searchTime = 0; b.checkSearchTime() == nil {
		t.Error("a search without CPU time passes")
	}
	want := "script searches texts by patterns for more than 0s of CPU time"
	if _, err := b.runScript(`local s = ("x"):rep(1000) while true do pcall(s.find, s, "x-x-y") end`, nil); b.err() == nil || b.err().Error() != want {
		t.Errorf("error %v, then %v, want %q", err, b.err(), want)
	}
}

// SPDX-FileCopyrightText: The Weir Authors
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"fmt"
	"strings"
	"testing"
)

const (
	tooLong   = "takes more than 200000 instructions; it may never end"
	tooMuch   = "takes more than 32 MiB of memory"
	tooBig    = "makes a text of more than 256 KiB"
	tooNested = "script is nested more than 200 levels deep"
)

// TestEscapes are scripts that would harm the program that runs them. Each is
// refused, and says why.
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
		"sorting again and again":     {`local t = {} for i = 1, 10000 do t[i] = i end while true do table.sort(t) end`, tooLong},
		"a replacement that loops":    {`("a"):gsub("a", function() while true do end end)`, tooLong},
		"next over what is gone":      {`local t = {} for i = 1, 9000 do t["k" .. i] = 1 end for i = 1, 9000 do t["k" .. i] = nil end while true do next(t) end`, tooLong},

		"recursion":                  {`local function f() return 1 + f() end f()`, "stack overflow"},
		"tail recursion":             {`local function f() return f() end f()`, tooLong},
		"recursion through pcall":    {`local function f() pcall(f) return 1 + f() end f()`, tooLong},
		"recursion through tostring": {`local t t = setmetatable({}, {__tostring = function() return tostring(t) end}) tostring(t)`, "stack overflow"},
		"recursion through gsub":     {`local function f() return (("a"):gsub("a", f)) end f()`, "stack overflow"},
		"many values":                {`local t = {unpack({}, 1, 1e8)}`, "registry overflow"},
		"many bytes as values":       {big + `local t = {s:byte(1, -1)}`, "registry overflow"},

		"doubling a text":                 {`local s = "x" while true do s = s .. s end`, tooBig},
		"many texts":                      {big + `local t = {} while true do t[#t + 1] = s .. #t end`, tooMuch},
		"upper and upper":                 {big + `local t = {} while true do t[#t + 1] = s:upper() end`, tooMuch},
		"a repetition":                    {`("x"):rep(1e9)`, tooBig},
		"a long repetition":               {`("x"):rep(1e300)`, tooBig},
		"a repetition of long ones":       {big + `s:rep(1e15)`, tooBig},
		"after a repetition of no number": {big + `pcall(string.rep, "x", 0/0) local t = {} while true do t[#t + 1] = s .. #t end`, tooMuch},
		"after a repetition of less":      {big + `pcall(string.rep, s, -1/0) pcall(string.rep, s, -1e300) local t = {} while true do t[#t + 1] = s .. #t end`, tooMuch},
		"after numbers that are none": {big + `local nan = 0/0
			for _, f in ipairs({string.sub, string.byte, string.char, string.find, string.gsub, string.format, table.insert, table.remove, table.concat, unpack, select, tonumber}) do
				for _, n in ipairs({nan, -nan, 1/0, -1/0, 1e300, -1e300, 2^63, -2^63}) do
					pcall(f, n, n, n, n) pcall(f, "x", n, n, n) pcall(f, "%c", n) pcall(f, {1}, n, n) pcall(f, {1}, "", n, n)
				end
			end
			local t = {} while true do t[#t + 1] = s .. #t end`, tooMuch},
		"a format with a width":       {`("%999999999d"):format(1)`, "string.format does not know"},
		"a format with a star":        {`("%*d"):format(99999999, 1)`, "string.format does not know"},
		"a format of Go":              {`("%v"):format({})`, "string.format does not know"},
		"many formats":                {big + `(("%s"):rep(100)):format(s, s, s, s)`, tooBig},
		"a concatenation":             {big + `local t = {} for i = 1, 100 do t[i] = s end table.concat(t)`, tooBig},
		"a concatenation's separator": {big + `local t = {} for i = 1, 100 do t[i] = "" end table.concat(t, s)`, tooBig},
		"a replacement that grows":    {big + `s:gsub("x", s)`, tooBig},
		"a replacement of itself":     {big + `s:gsub(".+", ("%0"):rep(1000))`, tooBig},
		"errors that are long":        {big + `local t = {} while true do local _, e = pcall(error, s .. #t) t[#t + 1] = e end`, "takes more than"},
		"errors by a long key":        {big + `local t = {} while true do local _, e = pcall(function() return (nil)[s] end) t[#t + 1] = e end`, "takes more than"},

		"many tables":               {`local t = {} while true do t = {t} end`, tooMuch},
		"many tables in one":        {`local t = {} while true do t[#t + 1] = {{a = 1}, {a = 1}} end`, tooMuch},
		"tables of many values":     {`local u = {} for i = 1, 4000 do u[i] = 1 end local t = {} while true do t[#t + 1] = {unpack(u)} end`, tooMuch},
		"an entry far away":         {`local t = {} while true do t[#t + 1] = {[16000] = 1} end`, tooMuch},
		"entries far away":          {`local t = {} local i = 0 while true do i = i + 1 t["a" .. i] = {} t["a" .. i][16383] = 1 end`, tooMuch},
		"entries set raw":           {`local t = {} local i = 0 while true do i = i + 1 t["a" .. i] = {} rawset(t["a" .. i], 16383, 1) end`, tooMuch},
		"entries inserted far away": {`local t = {} local i = 0 while true do i = i + 1 t["a" .. i] = {} table.insert(t["a" .. i], 16383, 1) end`, tooMuch},
		"entries by a long key":     {`local t = {} for i = 1, 1e9 do t[i .. ("x"):rep(1000)] = i end`, tooLong},
		"lists of nothing":          {`local t = {} while true do t[#t + 1] = {unpack({}, 1, 4000)} end`, tooMuch},
		"entries that others had":   {`local u = {} for i = 1, 8000 do u[i] = 1 end local t = {} while true do local v = {} v[8000] = 1 t[#t + 1] = v end`, tooMuch},
		"inserts of nothing":        {`local t = {} while true do table.insert(t, 1, nil) end`, tooLong},
		"tables that do not count":  {`_G["{}"], _G["{[]}"] = function(t) return t end, function(k) return k end local t = {} while true do t[#t + 1] = {[16000] = 1} end`, tooMuch},
		"functions that stay":       {`local t, a, b, c = {} while true do t[#t + 1] = function() return a, b, c end end`, "takes more than"},
		"JSON that grows":           {`local s, t = ("<"):rep(200000), {} for i = 1, 100 do t[i] = s end json.encode(t)`, tooBig},
		"JSON of little for much":   {`local t = {} while true do t[#t + 1] = json.decode("[" .. ("{},"):rep(1000) .. "1]") end`, tooMuch},
		"a result that is shared":   {`local t = {1} for i = 1, 30 do t = {t, t} end return t`, tooMuch},
		"JSON that is shared":       {`local t = {1} for i = 1, 30 do t = {t, t} end return {json.encode(t)}`, tooMuch},
		"a result that is deep":     {`local t = {} for i = 1, 1000 do t = {a = t} end return t`, "nested too deep"},
		"JSON that is deep":         {`local v, e = json.decode(("["):rep(1000) .. ("]"):rep(1000)) error(e, 0)`, "nested too deep"},
		"a result in itself":        {`obj.x = {obj} return obj`, "the result.x[0] contains itself"},

		"a pattern of many":            {`(("a"):rep(1000)):find(".-.-.-.-.-.-b")`, tooLong},
		"a greedy pattern of many":     {`(("a"):rep(1000)):find("a*a*a*a*a*b")`, tooLong},
		"a pattern of optional ones":   {`(("a"):rep(100)):match(("a?"):rep(90) .. ("a"):rep(100) .. "b")`, tooLong},
		"a pattern that is tried":      {big + `s:gsub("x*b", "")`, tooLong},
		"a pattern that is deep":       {`(("a"):rep(1000)):find(("a?"):rep(500))`, "the pattern is too complex"},
		"a pattern of many captures":   {`("a"):find(("()"):rep(50))`, "the pattern has too many captures"},
		"a pattern that does not end":  {`("a"):find("[a")`, "the pattern has a [ without ]"},
		"a pattern that closes":        {`("a"):find("a)")`, "closes a capture that is not open"},
		"a pattern that stays open":    {`("a"):find("(a")`, "the pattern has a ( without )"},
		"a pattern that ends in %":     {`("a"):find("a%")`, "the pattern ends with %"},
		"a pattern with a wrong place": {`("a"):find("%1")`, "names a capture that it does not have"},
		"a balance of one":             {`("a"):find("%ba")`, "names not both characters"},
		"a frontier of nothing":        {`("a"):find("%f")`, "the pattern ends too early"},
		"gmatch again and again":       {big + `for _ in s:gmatch("x-y") do end`, tooLong},

		"os":            {`os.execute("true")`, "script:1: os is not available to scripts"},
		"io":            {`io.open("/etc/passwd")`, "io is not available to scripts"},
		"debug":         {`debug.getregistry()`, "debug is not available to scripts"},
		"package":       {`package.loadlib("x", "y")`, "package is not available to scripts"},
		"coroutine":     {`coroutine.wrap(print)`, "coroutine is not available to scripts"},
		"channel":       {`channel.make()`, "channel is not available to scripts"},
		"require":       {`require("os")`, "require is not available to scripts"},
		"dofile":        {`dofile("/etc/passwd")`, "dofile is not available to scripts"},
		"loadfile":      {`loadfile("/etc/passwd")`, "loadfile is not available to scripts"},
		"loadstring":    {`loadstring("return 1")`, "loadstring is not available to scripts"},
		"load":          {`load(function() end)`, "load is not available to scripts"},
		"module":        {`module("x")`, "module is not available to scripts"},
		"setfenv":       {`setfenv(1, {})`, "setfenv is not available to scripts"},
		"getfenv":       {`getfenv(0)`, "getfenv is not available to scripts"},
		"newproxy":      {`newproxy(true)`, "newproxy is not available to scripts"},
		"garbage":       {`collectgarbage()`, "collectgarbage is not available to scripts"},
		"chance":        {`return {math.random()}`, "math.random is not available to scripts"},
		"string.dump":   {`string.dump(print)`, "string.dump is not available to scripts"},
		"by the method": {`("x"):dump()`, "string.dump is not available to scripts"},

		"not Lua":                {`return {`, "reading the script:"},
		"empty":                  {" \n", "script is empty"},
		"too long":               {"--" + strings.Repeat("x", maxScript), "script is longer than 256 KiB"},
		"nested":                 {"return {a = " + strings.Repeat("(", 1) + strings.Repeat("{", 5000) + strings.Repeat("}", 5000) + ")}", tooNested},
		"nested functions":       {strings.Repeat("do ", 5000) + strings.Repeat("end ", 5000), tooNested},
		"nested operators":       {"return " + strings.Repeat("not ", 5000) + "1", tooNested},
		"a long chain":           {"local a = 1 return " + strings.Repeat("a.", 5000) + "b", tooNested},
		"nothing returned":       {`local x = 1`, "must return a table, and returns nil"},
		"a long name":            {"local " + strings.Repeat("a", 300) + " = 1", "script:1: a name is longer than 256 characters"},
		"a long method":          {"obj:" + strings.Repeat("a", 300) + "()", "script:1: a name is longer than 256 characters"},
		"many names":             {manyNames(5000), "script has more than 4096 names and literals"},
		"many variables":         {captured + strings.ReplaceAll(captured, "v", "w") + "local function f() return " + strings.Join(variables, ",") + "," + strings.ReplaceAll(strings.Join(variables, ","), "v", "w") + " end", "script:1: a function uses more than 60 variables of others"},
		"a text returned":        {`return "x"`, "must return a table, and returns string"},
		"a list returned":        {`return {1, 2}`, "the result is a list and must have names"},
		"a function in it":       {`return {a = {print}}`, "the result.a[0] is a function"},
		"a number as a name":     {`return {[0.5] = 1}`, "the result has an entry of number 0.5"},
		"zero as a name":         {`return {[0] = 1}`, "the result has an entry of number 0"},
		"a boolean as a name":    {`return {[true] = 1}`, "the result has an entry by a boolean"},
		"no number":              {`return {a = 0/0}`, "the result.a is no number"},
		"without end":            {`return {a = -1/0}`, "the result.a is no number"},
		"bytes that are no text": {`return {a = "\255"}`, "the result.a is no valid text"},
		"a name that is no text": {`return {["\255"] = 1}`, "a name in the result is no valid text"},
		"an error":               {"\nerror('no such route')", "script:2: no such route"},
		"an error with a place":  {`error("no such route", 0)`, "no such route"},
		"an error that is none":  {`error({code = 1})`, "raised an error that is no text"},
		"an error of nothing":    {`error()`, "bad argument"},
		"a long error":           {big + `error(s, 0)`, "xxx…"},
		"an index of nothing":    {`return {obj.spec.x}`, "script:1: attempt to index"},
		"a call of nothing":      {`nothing()`, "attempt to call"},
		"joining nothing":        {"\n\nreturn {a = 'x' .. nil}", "script:3: a string and a nil cannot be joined by .."},
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

// TestWhatCannotComeIn are objects that a script would change by reading them.
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

func manyNames(n int) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, "x%d = %d ", i, i)
	}
	return s.String()
}
